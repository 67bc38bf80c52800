#include "exchange/changed_rows.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace graph_opt {
namespace {

constexpr int64_t kWordBits = 64;

int64_t WordsOf(int64_t bytes) { return (bytes + 7) / 8; }

int64_t WordsOfPlaces(int64_t asked, int64_t changed) {
  return changed == 0 || changed == asked ? 0 : (asked + kWordBits - 1) / kWordBits;
}

// Of words, one after another.
class Checksum {
 public:
  void Add(const int64_t* words, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sum_ = (sum_ ^ static_cast<uint64_t>(words[i])) * kPrime;
  }

  uint64_t sum() const { return sum_ ^ (sum_ >> 32); }

 private:
  static constexpr uint64_t kPrime = 1099511628211u;  // of FNV-1a
  uint64_t sum_ = 14695981039346656037u;
};

uint64_t ChecksumOf(const std::vector<RequestedRows>& request) {
  Checksum checksum;
  for (const RequestedRows& of_shard : request) {
    const int64_t header[kRequestHeaderWords] = {0, of_shard.count};
    checksum.Add(header, kRequestHeaderWords);
    if (of_shard.rows != nullptr) checksum.Add(of_shard.rows, of_shard.count);
  }
  return checksum.sum();
}

bool HasBit(const int64_t* words, int64_t place) {
  return (static_cast<uint64_t>(words[place / kWordBits]) >> (place % kWordBits)) & 1;
}

// What is left of the words that a rank has sent.
class Words {
 public:
  Words(const int64_t* begin, const int64_t* end) : next_(begin), end_(end) {}

  // Null if there are fewer.
  const int64_t* Take(int64_t count) {
    if (count < 0 || count > end_ - next_) return nullptr;
    const int64_t* const taken = next_;
    next_ += count;
    return taken;
  }

  bool empty() const { return next_ == end_; }

 private:
  const int64_t* next_;
  const int64_t* const end_;
};

absl::Status Malformed() {
  return absl::InvalidArgumentError("the message with changed rows is malformed");
}

absl::Status CheckBatch(Words* words, const RequestWords& request) {
  const int64_t* const sent = words->Take(1);
  if (sent == nullptr) return Malformed();
  Checksum checksum;
  checksum.Add(request.words, request.size);
  if (static_cast<uint64_t>(*sent) == checksum.sum()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "it is at another batch than this rank: with exact rows of batches that are looked up ahead, "
      "all ranks must run the same steps, those that only fetch part of a batch included");
}

absl::Status ReadShard(Words* words, int64_t asked, int64_t row_bytes, ReceivedChanges* changes) {
  const int64_t* const header = words->Take(1);
  if (header == nullptr) return Malformed();
  const int64_t changed = *header;
  if (changed < 0 || changed > asked) return Malformed();
  const int64_t* const places = words->Take(WordsOfPlaces(asked, changed));
  const int64_t* const rows = words->Take(WordsOf(changed * row_bytes));
  if (places == nullptr || rows == nullptr) return Malformed();
  const char* value = reinterpret_cast<const char*>(rows);
  for (int64_t place = 0; changed > 0 && place < asked; ++place) {
    if (changed < asked && !HasBit(places, place)) continue;
    changes->places.push_back(place);
    changes->values.push_back(value);
    value += row_bytes;
  }
  const bool is_whole = static_cast<int64_t>(changes->places.size()) == changed;
  return is_whole ? absl::OkStatus() : Malformed();
}

}  // namespace

ChangedRowsForRanks::ChangedRowsForRanks(const std::vector<ServedShard>& shards,
                                         const ReceivedRequests& requests,
                                         const std::vector<RowSet>& changed, RowType type,
                                         Parallel* parallel)
    : shards_(shards),
      changed_(changed),
      type_(type),
      parallel_(parallel),
      num_ranks_(requests.ranks.size()) {
  for (size_t rank = 0; rank < num_ranks_; ++rank) {
    checksums_.push_back(ChecksumOf(requests.ranks[rank]));
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      Part part;
      part.rank = rank;
      part.shard = static_cast<int>(shard);
      part.requested = &requests.ranks[rank][shard];
      parts_.push_back(std::move(part));
    }
  }
}

absl::Status ChangedRowsForRanks::Find() {
  parallel_->Run(static_cast<int64_t>(parts_.size()), [&](int64_t i) { FindPart(&parts_[i]); });
  for (const Part& part : parts_) {
    if (!part.status.ok()) return OfRank(part.rank, part.status);
  }
  return absl::OkStatus();
}

void ChangedRowsForRanks::FindPart(Part* part) const {
  const ServedShard& shard = shards_[part->shard];
  const RequestedRows& requested = *part->requested;
  const RowSet& changed = changed_[part->shard];
  part->words = 1;
  if (requested.rows == nullptr && requested.count > 0) {
    part->status = absl::InvalidArgumentError(
        absl::StrCat("table '", shard.table, "' is asked for bags or keys; need rows"));
    return;
  }
  for (int64_t i = 0; !changed.none() && i < requested.count; ++i) {
    const int64_t row = requested.rows[i];
    if (!changed.MayHave(row)) continue;
    if (row < 0 || row >= shard.num_rows) {
      part->status =
          absl::InvalidArgumentError(absl::StrCat("row ", row, " is asked of table '", shard.table,
                                                  "', which has ", shard.num_rows, " rows here"));
      return;
    }
    part->places.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(part->places.size());
  part->words += WordsOfPlaces(requested.count, count) + WordsOf(count * RowBytes(part->shard));
}

std::vector<int64_t> ChangedRowsForRanks::WordsOfRanks() const {
  std::vector<int64_t> words(num_ranks_, 1);
  for (const Part& part : parts_) words[part.rank] += part.words;
  return words;
}

void ChangedRowsForRanks::Write(int64_t* message) const {
  std::vector<int64_t*> begins;
  size_t part = 0;
  for (uint64_t checksum : checksums_) {
    *message++ = static_cast<int64_t>(checksum);
    for (size_t shard = 0; shard < shards_.size(); ++shard, ++part) {
      begins.push_back(message);
      message += parts_[part].words;
    }
  }
  parallel_->Run(static_cast<int64_t>(parts_.size()),
                 [&](int64_t i) { WritePart(parts_[i], begins[i]); });
}

void ChangedRowsForRanks::WritePart(const Part& part, int64_t* to) const {
  const ServedShard& shard = shards_[part.shard];
  const int64_t asked = part.requested->count;
  const int64_t count = static_cast<int64_t>(part.places.size());
  const int64_t row_bytes = RowBytes(part.shard);
  const int64_t stride = shard.stride == 0 ? row_bytes : shard.stride * ByteSize(type_);
  std::memset(to, 0, part.words * sizeof(int64_t));
  *to = count;
  int64_t* const places = to + 1;
  if (WordsOfPlaces(asked, count) > 0) {
    uint64_t* const bits = reinterpret_cast<uint64_t*>(places);
    for (int64_t place : part.places) bits[place / kWordBits] |= uint64_t{1} << (place % kWordBits);
  }
  char* value = reinterpret_cast<char*>(places + WordsOfPlaces(asked, count));
  const char* const data = static_cast<const char*>(shard.data);
  for (int64_t place : part.places) {
    std::memcpy(value, data + part.requested->rows[place] * stride, row_bytes);
    value += row_bytes;
  }
}

absl::Status ReadChanges(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                         const std::vector<RequestWords>& requests, const PackedShards& shards,
                         RowType type, std::vector<ReceivedChanges>* changes) {
  std::vector<Words> of_ranks;
  int64_t begin = 0;
  for (int64_t words : sizes) {
    if (words < 0 || words > size - begin) return Malformed();
    of_ranks.emplace_back(message + begin, message + begin + words);
    begin += words;
  }
  if (begin != size || requests.size() != of_ranks.size()) return Malformed();
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const absl::Status status = CheckBatch(&of_ranks[rank], requests[rank]);
    if (!status.ok()) return OfRank(rank, status);
  }
  for (size_t t = 0; t < shards.widths.size(); ++t) {
    for (int shard = shards.first_shards[t]; shard < shards.first_shards[t + 1]; ++shard) {
      const size_t rank = shards.servers[shard];
      if (rank >= of_ranks.size()) return Malformed();
      ReceivedChanges found;
      found.shard = shard;
      const absl::Status status = ReadShard(&of_ranks[rank], shards.counts[shard],
                                            shards.widths[t] * ByteSize(type), &found);
      if (!status.ok()) return OfRank(rank, status);
      if (!found.places.empty()) changes->push_back(std::move(found));
    }
  }
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (!of_ranks[rank].empty()) return OfRank(rank, Malformed());
  }
  return absl::OkStatus();
}

}  // namespace graph_opt
