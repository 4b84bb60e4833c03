// Package compare plays random sequences of calls on Redisson and on this
// library, and reports the first step of which it does not know the cause.
//
// A sequence is 20 [Step] values that follow from a seed. There are two kinds
// of [Runs]:
//
//   - In separate runs ([SeparateRuns]) Java and Go each have a name of their
//     own. Both do every step in the same ms.
//   - In shared runs ([SharedRuns]) both work on one name, and each step is
//     done by one of them.
//
// After each step everything that Redis holds of the limiter is read and
// decoded: the state. The answer and the state after it are the outcome of the
// step. Two models compute what the outcome should be:
//
//   - exact is the limiter as it should be: a sliding log, exact to the ms,
//     with the faults of Redisson cured. Go must always do what it says.
//   - redisson is Redisson 4.7.0 with its faults. Java must always do what it
//     says, so a fault excuses no more than Redisson's own scripts do.
//
// Where Java differs from exact, the checker asks the faults: each has a
// predicate that names the parts of the outcome for which the fault accounts.
// A part that is left is a [Divergence], and so is every other difference. A
// [Runner] searches many sequences for one, and shrinks the sequence that it
// finds.
//
// # Adding the predicate of a fault
//
//  1. Make redisson do what the real one does, in redisson.go. Without that,
//     each sequence that meets the fault says "Java does what is not known of
//     it".
//  2. Write the predicate beside the others: a func(d deviation) parts that
//     looks at the step, at the state before it and at what Java made of it.
//     It returns 0 unless the fault is at work, and else the parts that it
//     changes, and no others.
//  3. Enter it in faults, with its number in the README. It is harmless if Go
//     still keeps the limit in the state that it leaves. If it is not, let
//     javaMay leave the step to Go in shared runs.
//
// TestEachFaultIsNeeded then proves that something differs without it, and
// TestNoFaultExcuses that it excuses no Redisson that is wrong in another way.
package compare
