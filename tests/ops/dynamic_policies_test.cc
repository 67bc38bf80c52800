// Who gets a row of a dynamic table, who loses it, and the file behind rows, without TensorFlow:
// each is compared with a plain model of its rule over random operations.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dynamic/admission.h"
#include "dynamic/bloom_counters.h"
#include "dynamic/cold_rows.h"
#include "dynamic/row_file.h"
#include "functors_testing.h"

namespace graph_opt {
namespace {

std::unique_ptr<AdmissionFilter> Counter(int64_t filter_freq, int64_t most_counted) {
  AdmissionOptions options;
  options.kind = Admission::kCounter;
  options.filter_freq = filter_freq;
  options.most_counted = most_counted;
  return MakeAdmissionFilter(options, 0, 1);
}

void TestCounter() {
  std::mt19937 random(1);
  const auto filter = Counter(5, 0);
  std::map<int64_t, int64_t> counts;
  for (int i = 0; i < 20000; ++i) {
    const int64_t key = static_cast<int64_t>(random() % 500) - 250;
    const int64_t count = 1 + random() % 3;
    int64_t frequency;
    counts[key] += count;
    const bool admitted = filter->Admit(key, count, i + 1, &frequency);
    Check(admitted == (counts[key] >= 5), "admitted when the frequency is reached");
    Check(frequency == counts[key], "the frequency is kept");
    if (admitted) counts.erase(key);
    Check(filter->Frequency(key) == (admitted ? 0 : counts[key]), "frequency of a key that waits");
  }
  std::vector<FilteredKey> waiting;
  filter->Export(&waiting);
  Check(waiting.size() == counts.size() && filter->size() == int64_t(counts.size()), "exported");
  for (const FilteredKey& key : waiting) {
    Check(counts[key.key] == key.frequency && key.version == -1, "exported frequency");
  }
  filter->Expire(100, 10);
  Check(filter->size() == int64_t(counts.size()), "the first checkpoint only gives versions");
  filter->Restore({1000, 4, 105});
  filter->Expire(111, 10);
  Check(filter->size() == 1 && filter->Frequency(1000) == 4, "expired");
  filter->Clear();
  Check(filter->size() == 0, "cleared");
}

void TestBoundedCounter() {
  const auto filter = Counter(100, 1000);
  int64_t frequency;
  for (int i = 0; i < 50; ++i) filter->Admit(-7, 1, i + 1, &frequency);
  for (int64_t key = 0; key < 5000; ++key) {
    filter->Admit(key, 1, 100, &frequency);
    Check(filter->size() <= 1000, "no more keys than may wait");
  }
  Check(filter->Frequency(-7) > 0, "frequent keys stay");
}

void TestBloomRule() {
  AdmissionOptions options;
  options.kind = Admission::kBloom;
  options.filter_freq = 3;
  options.expected_keys = 100000;
  options.false_positive_probability = 0.01;
  const auto filter = MakeAdmissionFilter(options, 0, 1);
  int64_t frequency;
  Check(!filter->Admit(5, 2, 1, &frequency), "new");
  Check(!filter->Admit(5, 2, 1, &frequency), "occurrences of one lookup do not see each other");
  Check(filter->Frequency(5) == 0, "counted at the end");
  filter->EndLookup();
  Check(filter->Frequency(5) >= 3, "counted");
  Check(filter->Admit(5, 1, 2, &frequency) && frequency >= 4, "admitted by what was before");
}

void TestBloomCounts() {
  const int64_t keys = 50000;
  const double probability = 0.02;
  BloomCounters counters(keys, probability, 200);
  Check(counters.bytes() == 0, "no memory before keys come");
  std::mt19937_64 random(2);
  std::map<int64_t, uint32_t> counts;
  while (int64_t(counts.size()) < keys) {
    const int64_t key = static_cast<int64_t>(random());
    const int64_t count = 1 + random() % 150;
    counters.Add(key, count);
    counts[key] += count;
  }
  int64_t too_high = 0;
  for (const auto& counted : counts) {
    const uint32_t count = counters.Count(counted.first);
    Check(count >= std::min<uint32_t>(counted.second, 200), "never too low");
    too_high += count > counted.second;
  }
  Check(too_high < 1.2 * probability * keys, "seldom too high");
  int64_t strangers = 0;
  for (int i = 0; i < 100000; ++i) strangers += counters.Count(static_cast<int64_t>(random())) > 0;
  Check(strangers < 1.2 * probability * 100000, "keys that never came");
  counters.Clear();
  Check(counters.bytes() == 0 && counters.Count(counts.begin()->first) == 0, "cleared");
}

void TestBloomMemory() {
  BloomCounters counters(int64_t{1} << 30, 0.01, 3);
  for (int64_t key = 0; key < 100000; ++key) counters.Add(key, 1);
  Check(counters.bytes() < 3 << 20, "memory grows with the keys that come");
}

void TestProbability() {
  AdmissionOptions options;
  options.kind = Admission::kProbability;
  options.probability = 0.3;
  const auto one = MakeAdmissionFilter(options, 7, 1);
  const auto other = MakeAdmissionFilter(options, 7, 64);
  const auto another = MakeAdmissionFilter(options, 8, 1);
  int64_t frequency, admitted = 0, different = 0, later = 0;
  for (int64_t key = 0; key < 100000; ++key) {
    const bool admits = one->Admit(key, 1, 1, &frequency);
    Check(admits == other->Admit(key, 1, 1, &frequency), "the same wherever the key is");
    Check(admits == one->Admit(key, 1, 1, &frequency), "the same in the whole lookup");
    admitted += admits;
    different += admits != another->Admit(key, 1, 1, &frequency);
    later += admits != one->Admit(key, 1, 2, &frequency);
  }
  Check(std::abs(admitted - 30000) < 600, "as often as asked for");
  Check(std::abs(different - 42000) < 800, "another seed, other keys");
  Check(std::abs(later - 42000) < 800, "another lookup, another chance");
  Check(MakeAdmissionFilter(AdmissionOptions(), 0, 1) == nullptr, "no filter");
}

struct Row {
  bool used;
  uint32_t frequency;
  uint32_t read;
};

class ModelRows : public ValuedRows {
 public:
  ModelRows(EvictionOrder order, size_t count) : values(order), rows(count, Row{false, 0, 0}) {}

  void ForEach(const std::function<void(uint32_t)>& visit) const override {
    for (size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].used) visit(static_cast<uint32_t>(row));
    }
  }
  bool IsUsed(uint32_t row) const override { return rows[row].used; }
  RowValue Value(uint32_t row) const override {
    return values.Of(rows[row].frequency, rows[row].read);
  }
  uint32_t LastRead(uint32_t row) const override { return rows[row].read; }

  RowValues values;
  std::vector<Row> rows;
};

// The least valuable row, by looking at all.
bool Least(const ModelRows& model, uint32_t oldest_hold, RowValue* least) {
  bool found = false;
  model.ForEach([&](uint32_t row) {
    if (model.rows[row].read >= oldest_hold) return;
    if (!found || model.Value(row) < *least) *least = model.Value(row);
    found = true;
  });
  return found;
}

void TestColdRows(EvictionOrder order) {
  const size_t capacity = 900, window = 5;
  std::mt19937 random(3);
  ModelRows model(order, capacity + 200);
  ColdRows cold;
  size_t used = 0;
  for (uint32_t lookup = 1; lookup < 3000; ++lookup) {
    const uint32_t oldest_hold = lookup < window ? 1 : lookup - random() % window;
    if (lookup % 100 == 0) model.values.EndEpoch(lookup);
    for (int i = 0; i < 30; ++i) {
      const uint32_t row = random() % (random() % 2 ? model.rows.size() : 100);
      Row* data = &model.rows[row];
      if (data->used) {
        data->read = lookup;
        if (order == EvictionOrder::kCustom) {
          data->frequency = random() % 50;
          cold.Add(row, model.Value(row), lookup);
        } else {
          ++data->frequency;
        }
      } else if (used < model.rows.size()) {
        *data = {true, 1 + uint32_t(random() % 4), lookup};
        cold.Add(row, model.Value(row), lookup);
        ++used;
      }
    }
    ColdRows::Entry coldest;
    RowValue least;
    while (used > capacity) {
      const bool found = cold.Coldest(model, oldest_hold, &coldest);
      Check(found == Least(model, oldest_hold, &least), "finds a row if there is one");
      if (!found) break;
      Check(model.rows[coldest.row].used, "of a key");
      Check(coldest.value == least && model.Value(coldest.row) == least, "the least valuable");
      model.rows[coldest.row].used = false;
      --used;
    }
    Check(cold.bytes() < 1 << 20, "few entries");
  }
}

void TestEpochs() {
  RowValues values(EvictionOrder::kEpochLfu);
  values.EndEpoch(10);
  Check(values.Of(1000, 10) < values.Of(1, 11), "an earlier epoch is worth less");
  Check(values.Of(1, 11) < values.Of(2, 11), "then the lower frequency");
  values.EndEpoch(20);
  Check(values.Of(9, 20) < values.Of(1, 21), "the next epoch");
}

int FilesIn(const std::string& folder) {
  int files = 0;
  DIR* const opened = opendir(folder.c_str());
  while (const dirent* entry = readdir(opened)) files += entry->d_name[0] != '.';
  closedir(opened);
  return files;
}

void TestRowFile() {
  char made[] = "/tmp/row_file_XXXXXX";
  const std::string folder = mkdtemp(made);
  const std::string below = folder + "/a/b";
  const int64_t page = 4096;
  char* const region = static_cast<char*>(
      mmap(nullptr, 16 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  {
    std::unique_ptr<RowFile> file;
    Check(RowFile::Create(below, 8 * page, &file).ok(), "made with its folder");
    Check(FilesIn(below) == 0, "without a name");
    Check(file->Map(region + 2 * page, 2 * page, 8 * page).ok(), "mapped");
    Check(file->bytes() == 0, "takes no space yet");
    Check(file->TakeSpace(2 * page, 6 * page).ok(), "takes space");
    Check(file->bytes() == 4 * page, "bytes on the disk");
    for (int64_t i = 0; i < 4 * page; ++i) {
      Check(region[2 * page + i] == 0, "zeros");
      region[2 * page + i] = static_cast<char>(i);
    }
    Check(file->TakeSpace(6 * page, 8 * page).ok(), "more");
    const absl::Status full = file->TakeSpace(8 * page, 11 * page);
    Check(full.code() == absl::StatusCode::kResourceExhausted, "over its budget");
    Check(full.message().find("36864") != std::string::npos, "names the bytes");
    for (int64_t i = 0; i < 4 * page; ++i) {
      Check(region[2 * page + i] == static_cast<char>(i), "kept");
    }
    file->GiveBack(3 * page, 4 * page);
    Check(file->bytes() == 5 * page, "given back");
    Check(region[3 * page + 1] == 0 && region[4 * page + 1] == 1, "zeros again");
  }
  munmap(region, 16 * page);
  std::unique_ptr<RowFile> none;
  const absl::Status failed = RowFile::Create("/proc/nowhere", 0, &none);
  Check(!failed.ok() && failed.message().find("/proc/nowhere") != std::string::npos, "bad folder");
  rmdir(below.c_str());
  rmdir((folder + "/a").c_str());
  Check(rmdir(folder.c_str()) == 0, "nothing remains");
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestCounter();
  graph_opt::TestBoundedCounter();
  graph_opt::TestBloomRule();
  graph_opt::TestBloomCounts();
  graph_opt::TestBloomMemory();
  graph_opt::TestProbability();
  graph_opt::TestColdRows(graph_opt::EvictionOrder::kLru);
  graph_opt::TestColdRows(graph_opt::EvictionOrder::kLfu);
  graph_opt::TestColdRows(graph_opt::EvictionOrder::kEpochLfu);
  graph_opt::TestColdRows(graph_opt::EvictionOrder::kCustom);
  graph_opt::TestEpochs();
  graph_opt::TestRowFile();
}
