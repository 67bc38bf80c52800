#include "packed/packed_bags.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lookup/bag_order.h"
#include "lookup/plain_bags.h"
#include "packed/narrow_numbers.h"

namespace graph_opt {
namespace {

// The bag of each id, from the number of ids in each. False where they are not `num_ids`.
bool NumberBags(const int32_t* lengths, int64_t num_bags, int64_t num_ids, int64_t* positions) {
  std::fill_n(positions, num_ids + 1, int64_t{0});
  int64_t begin = 0;
  for (int64_t bag = 0; bag + 1 < num_bags; ++bag) {
    begin += static_cast<uint32_t>(lengths[bag]);
    if (begin > num_ids) return false;
    ++positions[begin];  // the next bag begins here
  }
  if (num_bags > 0) begin += static_cast<uint32_t>(lengths[num_bags - 1]);
  if (begin != num_ids) return false;
  for (int64_t k = 0; k < num_ids; ++k) positions[k + 1] += positions[k];
  return true;
}

absl::Status MalformedBags() { return absl::InvalidArgumentError("malformed bags"); }

}  // namespace

BagFault BagPacking::Read(const Bags& bags, int64_t num_rows) {
  combiner_ = bags.combiner;
  default_id_ = bags.default_id;
  filled_id_ = bags.filled_id;
  weighted_ = bags.weights != nullptr;
  has_empty_bag_ = false;
  num_bags_ = num_ids_ = 0;
  const BagFault fault = ReadAnyOrder(bags, num_rows);
  if (!has_empty_bag_) default_id_ = filled_id_ = -1;
  return fault;
}

BagFault BagPacking::ReadAnyOrder(const Bags& bags, int64_t num_rows) {
  BagFault fault;
  if (bags.num_ids > std::numeric_limits<int32_t>::max()) {
    fault.kind = BagFault::kTooMany;
    return fault;
  }
  if (ReadPlain(bags, num_rows)) return fault;
  fault = ReadInOrder(bags, num_rows);
  if (!fault.MayBeOfOrder()) return fault;
  Bags in_order = bags;
  std::vector<int64_t> places;
  return PutInBagOrder(&in_order, &places) ? ReadInOrder(in_order, num_rows) : fault;
}

// False where bags are not plain.
bool BagPacking::ReadPlain(const Bags& bags, int64_t num_rows) {
  if (!MayBePlain(bags)) return false;
  lengths_.Reserve(bags.num_bags);
  ids_.Reserve(bags.num_ids);
  ends_.Reserve(bags.num_bags + 1);
  int32_t* const ids = ids_.data();
  uint64_t greatest_id = 0;
  const BagSpan all = {0, bags.num_bags, 0, bags.num_ids};
  const bool is_plain =
      ForEachPlainId(bags, all, num_rows, ends_.data(), [&](int64_t k, int64_t, uint64_t id) {
        ids[k] = static_cast<int32_t>(id);
        greatest_id = std::max(greatest_id, id);
      });
  if (!is_plain) return false;
  num_bags_ = bags.num_bags;
  num_ids_ = bags.num_ids;
  greatest_id_ = static_cast<int32_t>(greatest_id);
  most_in_bag_ = 0;
  for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
    lengths_[bag] = static_cast<int32_t>(ends_[bag + 1] - ends_[bag]);
    has_empty_bag_ |= lengths_[bag] == 0;
    most_in_bag_ = std::max(most_in_bag_, lengths_[bag]);
  }
  return !has_empty_bag_ || filled_id_ < num_rows;
}

BagFault BagPacking::ReadInOrder(const Bags& bags, int64_t num_rows) {
  BagFault fault;
  lengths_.Reserve(bags.num_bags);
  ids_.Reserve(bags.num_ids);
  if (weighted_) weights_.Reserve(bags.num_ids);
  int32_t* const ids = ids_.data();
  float* const weights = weights_.data();
  const bool weighted = weighted_;
  int64_t count = 0;
  int64_t counted = 0;  // in the bags before
  int32_t most_in_bag = 0;
  int32_t greatest_id = 0;
  bool has_empty_bag = false;
  const bool in_order = ForEachOccurrence(
      bags, 0, bags.num_bags, &fault.bag,
      [&](int64_t bag, int64_t place, int64_t id, float weight) {
        if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(num_rows)) {
          fault.kind = BagFault::kIdOutOfRange;
          fault.bag = bag;
          fault.id = id;
          return false;
        }
        if (place < 0) {  // the server adds it
          has_empty_bag = true;
          return true;
        }
        ids[count] = static_cast<int32_t>(id);
        greatest_id = std::max(greatest_id, ids[count]);
        if (weighted) weights[count] = weight;
        ++count;
        return true;
      },
      [&](int64_t bag) {
        lengths_[bag] = static_cast<int32_t>(count - counted);
        most_in_bag = std::max(most_in_bag, lengths_[bag]);
        counted = count;
      });
  if (fault.kind == BagFault::kNone && !in_order) fault.kind = BagFault::kPositionsOutOfOrder;
  has_empty_bag_ = has_empty_bag;
  num_bags_ = bags.num_bags;
  num_ids_ = count;
  most_in_bag_ = most_in_bag;
  greatest_id_ = greatest_id;
  return fault;
}

int64_t BagPacking::num_words() const {
  return kBagHeaderWords + WordsOf(num_bags_, BytesFor(most_in_bag_)) +
         WordsOf(num_ids_, BytesFor(greatest_id_)) + (weighted_ ? WordsOf(num_ids_, 4) : 0);
}

int64_t* BagPacking::Write(int64_t* words) const {
  const int length_bytes = BytesFor(most_in_bag_);
  const int id_bytes = BytesFor(greatest_id_);
  *words++ = num_bags_;
  *words++ = num_ids_;
  *words++ = default_id_;
  *words++ = filled_id_;
  *words++ = static_cast<int64_t>(combiner_) << 24 | length_bytes << 16 | id_bytes << 8 | weighted_;
  words = WriteNumbers(lengths_.data(), num_bags_, length_bytes, words);
  words = WriteNumbers(ids_.data(), num_ids_, id_bytes, words);
  if (!weighted_ || num_ids_ == 0) return words;
  std::memcpy(words, weights_.data(), num_ids_ * sizeof(float));
  return FillUp(words, num_ids_, sizeof(float));
}

absl::Status FindPackedBags(const int64_t** words, const int64_t* end, PackedBags* packed) {
  const int64_t* at = *words;
  if (end - at < kBagHeaderWords) return MalformedBags();
  packed->num_bags = at[0];
  packed->num_ids = at[1];
  packed->default_id = at[2];
  packed->filled_id = at[3];
  const int64_t how = at[4];
  at += kBagHeaderWords;
  packed->combiner = static_cast<Combiner>(how >> 24 & 0xff);
  packed->length_bytes = static_cast<int>(how >> 16 & 0xff);
  packed->id_bytes = static_cast<int>(how >> 8 & 0xff);
  const bool weighted = how & 1;
  const int64_t most = (end - at) * kWordBytes;
  if (how >> 32 != 0 || (how & 0xfe) != 0 || (how >> 24 & 0xff) >= kCombiners)
    return MalformedBags();
  if (!IsWidth(packed->length_bytes) || !IsWidth(packed->id_bytes)) return MalformedBags();
  if (packed->num_bags < 0 || packed->num_bags > most) return MalformedBags();
  if (packed->num_ids < 0 || packed->num_ids > most) return MalformedBags();
  packed->lengths = at;
  packed->ids = packed->lengths + WordsOf(packed->num_bags, packed->length_bytes);
  packed->weights = packed->ids + WordsOf(packed->num_ids, packed->id_bytes);
  at = packed->weights + (weighted ? WordsOf(packed->num_ids, 4) : 0);
  if (at > end) return MalformedBags();
  if (!weighted) packed->weights = nullptr;
  *words = at;
  return absl::OkStatus();
}

bool HasEmptyBag(const PackedBags& packed) {
  if (packed.num_ids < packed.num_bags) return true;
  ScratchArray<int32_t> lengths;
  lengths.Reserve(packed.num_bags);
  ReadNumbers(packed.lengths, packed.num_bags, packed.length_bytes, lengths.data());
  int32_t* const end = lengths.data() + packed.num_bags;
  return std::find(lengths.data(), end, 0) != end;
}

void ReadIds(const PackedBags& packed, int32_t* ids) {
  ReadNumbers(packed.ids, packed.num_ids, packed.id_bytes, ids);
}

absl::Status Unpack(const PackedBags& packed, UnpackedBags* unpacked) {
  unpacked->ids.Reserve(std::max(packed.num_bags, packed.num_ids));
  unpacked->positions.Reserve(packed.num_ids + 1);
  int32_t* const numbers = unpacked->ids.data();
  ReadNumbers(packed.lengths, packed.num_bags, packed.length_bytes, numbers);
  if (!NumberBags(numbers, packed.num_bags, packed.num_ids, unpacked->positions.data())) {
    return MalformedBags();
  }
  ReadIds(packed, numbers);
  Bags& bags = unpacked->bags;
  bags.layout = Bags::kSparse;
  bags.wide_ids = false;
  bags.ids = numbers;
  bags.num_ids = packed.num_ids;
  bags.positions = unpacked->positions.data();
  bags.num_bags = packed.num_bags;
  bags.weights = nullptr;
  if (packed.weights != nullptr) {
    unpacked->weights.Reserve(std::max<int64_t>(packed.num_ids, 1));
    if (packed.num_ids > 0) {
      std::memcpy(unpacked->weights.data(), packed.weights, packed.num_ids * sizeof(float));
    }
    bags.weights = unpacked->weights.data();
  }
  bags.safe = false;  // what is dropped is not among them
  bags.default_id = packed.default_id;
  bags.filled_id = packed.filled_id;
  bags.combiner = packed.combiner;
  return absl::OkStatus();
}

int64_t RowOutside(const UnpackedBags& unpacked, int64_t num_rows) {
  const uint64_t rows = static_cast<uint64_t>(num_rows);
  uint64_t greatest = 0;  // a negative id is a great one
  for (int64_t k = 0; k < unpacked.bags.num_ids; ++k) {
    greatest = std::max(greatest, static_cast<uint64_t>(int64_t{unpacked.ids[k]}));
  }
  if (unpacked.bags.num_ids > 0 && greatest >= rows) return static_cast<uint32_t>(greatest);
  if (unpacked.bags.default_id >= num_rows) return unpacked.bags.default_id;
  return unpacked.bags.filled_id >= num_rows ? unpacked.bags.filled_id : -1;
}

}  // namespace graph_opt
