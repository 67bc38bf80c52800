/* Serves a SavedModel through TensorFlow's C API, as a program without Python does.

     serve FOLDER LIBRARY TAG[,TAG] INPUT OUTPUT

   reads lines of two ids, each a request for one row, and prints a number for each, or the error; then
   goes on. LIBRARY is one of ops, or - for none. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

static void Check(TF_Status* status, const char* doing) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %d: %s\n", doing, TF_GetCode(status), TF_Message(status));
  exit(1);
}

static TF_Output Named(TF_Graph* graph, char* name) {
  char* colon = strrchr(name, ':');
  TF_Output output;
  *colon = '\0';
  output.oper = TF_GraphOperationByName(graph, name);
  output.index = atoi(colon + 1);
  if (output.oper == NULL) {
    fprintf(stderr, "no operation %s\n", name);
    exit(1);
  }
  return output;
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  TF_Status* status = TF_NewStatus();
  if (strcmp(argv[2], "-") != 0) {
    TF_LoadLibrary(argv[2], status);
    Check(status, "library");
  }
  const char* tags[8];
  int num_tags = 0;
  for (char* tag = strtok(argv[3], ","); tag != NULL && num_tags < 8; tag = strtok(NULL, ",")) {
    tags[num_tags++] = tag;
  }
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, num_tags, graph, NULL, status);
  Check(status, "model");
  const TF_Output input = Named(graph, argv[4]);
  const TF_Output output = Named(graph, argv[5]);
  long long first, second;
  while (scanf("%lld %lld", &first, &second) == 2) {
    const int64_t shape[2] = {1, 2};
    TF_Tensor* ids = TF_AllocateTensor(TF_INT64, shape, 2, 2 * sizeof(int64_t));
    ((int64_t*)TF_TensorData(ids))[0] = first;
    ((int64_t*)TF_TensorData(ids))[1] = second;
    TF_Tensor* scores = NULL;
    TF_SessionRun(session, NULL, &input, &ids, 1, &output, &scores, 1, NULL, 0, NULL, status);
    if (TF_GetCode(status) == TF_OK) {
      printf("%.9g\n", *(float*)TF_TensorData(scores));
      TF_DeleteTensor(scores);
    } else {
      printf("error %d\n", TF_GetCode(status));
    }
    fflush(stdout);
    TF_DeleteTensor(ids);
  }
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
