/*
 * What every model includes.
 *
 * MUST(invariant, condition) is an assertion with a name: a verifier prints the text of the assertion that failed, and the
 * name stands in it. The name is declared as a `hidden byte`, which is 0 forever and not part of the state.
 *
 * One call to the bucket is one atomic step; what a process does between two calls happens together with the call before
 * it. Any process may stop before any step forever: that is a stall, and it is a crash.
 */
#define MUST(invariant, condition) assert((condition) || invariant)

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* The highest and the lowest of a set of numbers from 1 to 7; HIGHEST is 0 where there is none. */
#define HIGHEST(set) (((set) > 1) + ((set) > 3) + ((set) > 7) + ((set) > 15) + ((set) > 31) + ((set) > 63))
#define LOWEST(set) (HAS(set, 1) -> 1 : (HAS(set, 2) -> 2 : (HAS(set, 3) -> 3 : (HAS(set, 4) -> 4 : \
                    (HAS(set, 5) -> 5 : (HAS(set, 6) -> 6 : 7))))))
