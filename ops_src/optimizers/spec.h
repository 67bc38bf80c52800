// What an optimizer's spec is made of. A spec is a struct with the hyperparameters and flags as
// members; adagrad.h is a short one.
//
//   kSlots       How many variables like the table it keeps beside it.
//
//   Describe     Names everything, once:
//     Name             Of the optimizer; the attribute `optimizer` of ops.
//     StockOp          An op of TensorFlow's that updates so, drawn with its inputs: `table` and
//                      the slots, `gradient` and `rows`, and hyperparameters by their names; one
//                      that an op lacks is 0. The same op with "Resource" before its name is meant,
//                      too. An op without `rows` takes a gradient as large as the table. Without
//                      such an op, graph_opt/rules/optimizers has a pattern.
//     Slot             Its value before training; users may choose another.
//     Hyperparameter   With a usual value, which checks take, and a bound where the stock op has
//                      one: it fails beyond.
//     Flag             A boolean attribute of the stock op, with the op's default.
//     MovesEveryRow    That TensorFlow's sparse update moves all rows in each step. An update of
//                      those that were looked up is then another one, and done on request only;
//                      otherwise both are the same.
//     SumsRow          That the formula needs a sum over the row: see Summand.
//
//   Prepare      Computes other members from the hyperparameters, once for each update. Optional.
//
//   Update       The formula, for some columns of a row: `gradient` is the sum of the row's
//                gradients, then come the weights and the slots in the order of Describe. It is
//                compiled for single numbers (GPUs), vectors (CPUs) and doubles (checks): numbers
//                are Lanes::Vector, on which arithmetic works with floats, too, and Lanes has
//                SquareRoot, Power, Least and Greatest. Results are those of TensorFlow's op
//                (tensorflow/core/kernels/training_ops.cc): keep its order of operations. A formula
//                that says kTellsColumns has ReciprocalRoot as well, to TensorFlow's bits, and
//                kOneColumn, whether rows have one column, for which some ops have other steps.
//
//   Summand      Of formulas whose columns depend on each other (kSumsRow): what of each column, as
//                it is before the update, is summed over the row. TakeRowSum gets the sum before
//                the first column is updated. Such formulas run on CPUs only.
//
//   Idle         What a step does to a row without gradient, of optimizers that move every row.
//                With it such steps can be deferred (deferred/deferred_rows.h). Slots have the
//                places of Describe. In this order, each optional:
//     Decays(slot, factor)                Of each slot that does.
//     Keeps(factor)                       Weights are multiplied by it before they move.
//     Moves(rate, slot)                   Weights -= rate * slot,
//     Moves(rate, slot, root, epsilon)    or weights -= rate * slot / (sqrt(root slot) + epsilon),
//                                         with the decayed slots.
//     Mixes(slot from slot,               Instead of all these: the first slot and the weights
//     depend
//           slot from weights,            on each other (Mixing in idle_step.h).
//           weights from slot,
//           weights from weights)
//                Rate, kept factor and mixing may be others in each step. Factors are doubles, as
//                exact as TensorFlow's own: it may well multiply by 1 - float(1 - beta).
#ifndef GRAPH_OPT_OPTIMIZERS_SPEC_H_
#define GRAPH_OPT_OPTIMIZERS_SPEC_H_

// Formulas are compiled by nvcc for the GPU alone; other compilers inline them, so that what is
// compiled for one instruction set is not called from code for another.
#ifdef __CUDACC__
#define GRAPH_OPT_FORMULA __device__ inline
#elif defined(__GNUC__)
#define GRAPH_OPT_FORMULA inline __attribute__((always_inline))
#else
#define GRAPH_OPT_FORMULA inline
#endif

namespace graph_opt {
namespace optimizers {

struct Spec {
  static constexpr bool kSumsRow = false;
  static constexpr bool kTellsColumns = false;
  void Prepare() {}
  template <typename Description>
  void Idle(Description*) const {}
};

enum class Bound { kNone, kPositive, kNotNegative, kNotPositive };

template <int kCount>
struct SlotCount {};

template <bool kSums>
struct RowSum {};

template <typename Lanes, typename OneSpec>
GRAPH_OPT_FORMULA typename Lanes::Vector SummandOf(const OneSpec& spec,
                                                   typename Lanes::Vector gradient,
                                                   const typename Lanes::Vector* weights,
                                                   const typename Lanes::Vector* slots,
                                                   SlotCount<2>) {
  return spec.template Summand<Lanes>(gradient, *weights, slots[0], slots[1]);
}

template <typename Lanes, typename OneSpec>
GRAPH_OPT_FORMULA void UpdateColumns(const OneSpec& spec, typename Lanes::Vector gradient,
                                     typename Lanes::Vector* weights, typename Lanes::Vector*,
                                     SlotCount<0>) {
  spec.template Update<Lanes>(gradient, weights);
}

template <typename Lanes, typename OneSpec>
GRAPH_OPT_FORMULA void UpdateColumns(const OneSpec& spec, typename Lanes::Vector gradient,
                                     typename Lanes::Vector* weights, typename Lanes::Vector* slots,
                                     SlotCount<1>) {
  spec.template Update<Lanes>(gradient, weights, slots);
}

template <typename Lanes, typename OneSpec>
GRAPH_OPT_FORMULA void UpdateColumns(const OneSpec& spec, typename Lanes::Vector gradient,
                                     typename Lanes::Vector* weights, typename Lanes::Vector* slots,
                                     SlotCount<2>) {
  spec.template Update<Lanes>(gradient, weights, slots, slots + 1);
}

template <typename Lanes, typename OneSpec>
GRAPH_OPT_FORMULA void UpdateColumns(const OneSpec& spec, typename Lanes::Vector gradient,
                                     typename Lanes::Vector* weights, typename Lanes::Vector* slots,
                                     SlotCount<3>) {
  spec.template Update<Lanes>(gradient, weights, slots, slots + 1, slots + 2);
}

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_SPEC_H_
