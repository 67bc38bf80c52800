/* What a check needs of a device besides the calls of group_embedding_cuda.h. A status is 0 or what
 * graph_opt_cuda_message explains. */
#ifndef GRAPH_OPT_GPU_CHECK_DEVICE_MEMORY_H_
#define GRAPH_OPT_GPU_CHECK_DEVICE_MEMORY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The device's name, or null where there is none. */
const char* gpu_check_device_name(void);
/* Null when there is no memory left. */
void* gpu_check_allocate(int64_t bytes);
void gpu_check_free(void* memory);
int32_t gpu_check_copy_to_device(void* to, const void* from, int64_t bytes);
int32_t gpu_check_copy_from_device(void* to, const void* from, int64_t bytes);
/* Queues a copy from device memory to device memory. */
int32_t gpu_check_copy_on_device(void* to, const void* from, int64_t bytes);
/* Waits for all that is queued. */
int32_t gpu_check_wait(void);
/* A clock on the device: milliseconds since gpu_check_start, after all that was queued since. */
int32_t gpu_check_start(void);
int32_t gpu_check_stop(float* milliseconds);

#ifdef __cplusplus
}
#endif

#endif /* GRAPH_OPT_GPU_CHECK_DEVICE_MEMORY_H_ */
