/*
 * The state as a tree: roots that share leaves, and the collection of leaves that no root names (protocol 3.4, design 11.1).
 *
 * A version's content is one bit, so a root has one leaf: its hash is that bit, its generation the version for which it was
 * written. A root also says from which root it took what it did not write itself: its base. Entries are folded elsewhere
 * (commit.pml): whoever writes the root of a version has that version's content right.
 *
 * Nobody relies on a root before it is proven, by a look at the boundary after the root was there. Proven is one whose base
 * the boundary has not passed; and one whose leaf has a generation at or above the boundary, or is named by the root at the
 * boundary, which a collector has proven.
 *
 * A copy of the bucket may be put back under processes that go on. It was taken while roots and leaves were on their way, so
 * it may lack those of entries that it has; what a lost entry does is in replaced.pml. After that a number proves nothing: whoever
 * writes a root looks for its leaves and its base once the root is there. All others may believe a root that lacks a leaf, until
 * they miss it. A collector, and who sets a tag, promise nothing for what they began before.
 */
#include "must.pml"

#ifndef VERSIONS
#define VERSIONS 4
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef COLLECTORS
#define COLLECTORS 1
#endif
#ifndef READERS
#define READERS 0
#endif
#ifndef TAGGERS
#define TAGGERS 0
#endif
#ifndef COPIES
#define COPIES 0
#endif
#define SIZE 6

/* The bucket. */
unsigned newest : 3;                   /* the latest entry */
unsigned content : SIZE;               /* of each version: the hash of its leaf */
unsigned boundary : 3;
unsigned roots : SIZE;                 /* index/checkpoints/<version>: a set */
byte generation[SIZE];                 /* what a root says of its leaf */
byte base[SIZE];                       /* and from which root it took it; its own version if it wrote it */
unsigned leaves : 16;                  /* index/leaves/<hash>.<generation>: a set */
unsigned tagged : SIZE;                /* what the tags of the latest state pin */

#define HASH(v) HAS(content, v)
#define LEAF(h, g) ((h) * 8 + (g))
#define IS_THERE(v, g) HAS(leaves, LEAF(HASH(v), g))
#define GENERATION(leaf) ((leaf) & 7)
#define NAMES(v, leaf) (HAS(roots, v) && LEAF(HASH(v), generation[v]) == (leaf))
#define NAMED_FROM(low, pins, leaf) \
  ((((low) <= 1 || HAS(pins, 1)) && NAMES(1, leaf)) || (((low) <= 2 || HAS(pins, 2)) && NAMES(2, leaf)) || \
   (((low) <= 3 || HAS(pins, 3)) && NAMES(3, leaf)) || (((low) <= 4 || HAS(pins, 4)) && NAMES(4, leaf)) || \
   (((low) <= 5 || HAS(pins, 5)) && NAMES(5, leaf)))

#if COPIES
bit back;                              /* the copy was put back */
unsigned copied_boundary : 3;
unsigned copied_roots : SIZE;
byte copied_generation[SIZE];
byte copied_base[SIZE];
unsigned copied_leaves : 16;
unsigned copied_tagged : SIZE;
unsigned copied_promised : SIZE;
#define BACK back
#else
#define BACK 0
#endif

/* The truth, which no process sees: what processes rely on. */
unsigned proven : SIZE;                /* roots that a process took for whole */
unsigned promised : SIZE;              /* tags that were acknowledged */
unsigned open : 1;                     /* a reader's plan that is younger than a delete_delay; which root it has */
unsigned held : 3;
unsigned waits : 4;                    /* collectors that began to wait while that plan was open */

#define PROTECTED(v) ((HAS(proven, v) && (v) >= boundary) || HAS(promised, v))

hidden byte proven_is_whole;           /* a root that a process relies on has its leaf while no boundary passed it */
hidden byte boundary_is_whole;         /* so has the root over which the boundary moves */
hidden byte tags_are_whole;            /* and the root of a tag */
hidden byte plans_end;                 /* a plan reads its leaves for a delete_delay after it began */
hidden byte counted_once;              /* what is accounted is never taken for new */

inline any_version(one, low, high) {
  one = low;
  do
  :: one < high -> one++
  :: break
  od
}

#define PROOF unsigned low : 3, gen : 3, from : 3, root : 3; bit whole, own, since

/* PUT a version's root if absent; then it is read, for another may have been there. */
inline put_root(v, g, b) {
  atomic {
    if
    :: !HAS(roots, v) -> roots = roots | BIT(v); generation[v] = g; base[v] = b;
       printf("%d: writes root %d with generation %d, from %d\n", _pid, v, g, b)
    :: else
    fi
  };
  read_root(v)
}

inline read_root(v) {
  atomic {
    whole = HAS(roots, v);
    if
    :: whole -> root = v; gen = generation[v]; from = base[v]
    :: else
    fi
  }
}

/* Is the root that was read whole? First the boundary, after the root was there; then, if need be, the root at it. */
inline prove() {
  if
  :: whole ->
#ifdef BROKEN_NO_LOOK
     low = 0;
#else
     low = boundary;
#endif
     atomic {
#ifdef BROKEN_LOOKS_FOR_LEAVES
       /* It asks whether the leaf is there, and not whether the root from which it was taken is. */
       whole = IS_THERE(root, gen);
#else
       whole = root >= low && (from >= low || gen >= low || NAMES(low, LEAF(HASH(root), gen)));
#endif
       if
       :: own && since == BACK -> trust()
       :: own && since != BACK        /* what is lost while it looks is lost as if just after */
       :: !own -> believe()
       fi
     }
  :: else
  fi
}

inline trust() {
  if
  :: whole ->
     proven = proven | BIT(root);
     MUST(proven_is_whole, root < boundary || IS_THERE(root, gen))
  :: else
  fi
}

/* Is a root whole that this process has written, or found in the place of its own? After it was there: its leaf and the root
   itself, then the base. */
inline prove_own() {
#if COPIES
  atomic {
    since = BACK;
#ifndef BROKEN_LEAVES_UNSEEN
    whole = whole && IS_THERE(root, gen);
#endif
#ifndef BROKEN_ROOT_UNSEEN
    whole = whole && HAS(roots, root) && generation[root] == gen && base[root] == from
#endif
  };
#ifndef BROKEN_BASE_UNSEEN
  atomic {
    if
    :: whole && from != root && !(HAS(roots, from) && generation[from] == gen) ->
       whole = !HAS(roots, from); from = 0
    :: else
    fi
  };
#endif
#endif
  own = 1;
  prove()
}

/* A root that another process has written. */
inline believe() {
  if
  :: whole && !BACK -> trust()
  :: else
  fi
}

inline forget() { low = 0; gen = 0; from = 0; root = 0; whole = 0; own = 0; since = 0 }

proctype World() {
end_idle:
  do
#ifdef ALIKE
  /* All versions have the same leaf. */
  :: newest < VERSIONS -> newest++
#else
  :: atomic { newest < VERSIONS -> newest++ ; if :: content = content | BIT(newest) :: true fi }
#endif
  od
}

/* Any process that writes checkpoints: it opens, or continues from the root that it wrote last. */
proctype Writer() {
  unsigned version : 3, known : 3, known_gen : 3;
  PROOF;
end_idle:
  do
  :: atomic { roots && !known -> any_version(version, 1, VERSIONS) };
     read_root(version);
     prove();
     atomic { if :: whole -> known = root; known_gen = gen :: else fi; version = 0; forget() }
  :: atomic { newest && newest > known -> version = newest };
     if
     :: atomic { known && HASH(version) == HASH(known) -> gen = known_gen; from = known }
     :: atomic { !known || HASH(version) != HASH(known) ->
          leaves = leaves | BIT(LEAF(HASH(version), version));
          gen = version; from = version }
     fi;
     put_root(version, gen, from);
     prove_own();
     atomic { known = (whole -> root : 0); known_gen = (whole -> gen : 0); version = 0; forget() }
  od
}

#ifdef BROKEN_ANY_GENERATION
#define IS_OLD(leaf, low) true
#else
#define IS_OLD(leaf, low) (GENERATION(leaf) < (low))
#endif

/* The leaf may go: it was listed, and no root names it at or above the boundary, read before them, and no tag does. */
inline look(leaf) {
  low = boundary;
#ifndef BROKEN_TAGS_UNREAD
  pins = tagged;
#endif
  whole = HAS(leaves, leaf) && !NAMED_FROM(low, pins, leaf) && IS_OLD(leaf, low);
  atomic { low = 0; pins = 0 }
}

proctype Collector() {
  unsigned wanted : 3, leaf : 4, pins : SIZE, old : 3;
  bit was;
  PROOF;
end_idle:
  do
  /* The boundary moves over a root that this process has proven. */
  :: atomic { newest > boundary + 1 -> old = boundary; was = BACK; any_version(wanted, old + 1, newest - 1) };
     if
     :: atomic { old && NAMES(old, LEAF(HASH(wanted), generation[old])) -> gen = generation[old]; from = old }
     :: atomic { !(old && HASH(wanted) == HASH(old)) ->
          leaves = leaves | BIT(LEAF(HASH(wanted), wanted));
          gen = wanted; from = wanted }
     :: atomic { old && !HAS(roots, old) -> skip }
     fi;
     if
     :: gen -> put_root(wanted, gen, from); prove_own()
     :: else
     fi;
     atomic {
       if
       :: whole && boundary == old && was == BACK ->
          boundary = wanted;
          MUST(boundary_is_whole, HAS(roots, wanted) && IS_THERE(wanted, generation[wanted]))
       :: else
       fi;
       wanted = 0; old = 0; was = 0; forget()
     }
  /* Roots below the boundary that no tag pins, read after it. */
  :: atomic { boundary > 1 -> low = boundary; was = BACK };
     pins = tagged;
     atomic {
       roots = (was == BACK -> roots & (~(BIT(low) - 1) | pins) : roots);
       MUST(tags_are_whole, !(promised & ~roots));
       low = 0; pins = 0; was = 0
     }
  /* Leaves. */
  :: atomic { leaves && boundary -> was = BACK; any_version(leaf, 1, LEAF(1, VERSIONS)) };
     look(leaf);
#ifndef BROKEN_ONE_LOOK
     atomic {
       if
       :: whole && open -> waits = waits | BIT(_pid & 3)
       :: else
       fi
     };
     if
     :: whole ->
        !HAS(waits, _pid & 3) -> look(leaf)
     :: else
     fi;
#endif
     atomic {
       /* Just before, it looks at the history and the boundary again. */
#ifdef BROKEN_NOT_AGAIN
       was = BACK;
#endif
       if
       :: whole && was == BACK ->
          leaves = leaves & ~BIT(leaf);
          printf("%d: removes leaf %d of generation %d\n", _pid, leaf >> 3, GENERATION(leaf));
          MUST(proven_is_whole, !(NAMES(1, leaf) && PROTECTED(1)) && !(NAMES(2, leaf) && PROTECTED(2)) &&
                                !(NAMES(3, leaf) && PROTECTED(3)) && !(NAMES(4, leaf) && PROTECTED(4)) &&
                                !(NAMES(5, leaf) && PROTECTED(5)));
       :: else
       fi;
       leaf = 0; was = 0; forget()
     }
  od
}

/* A reader plans on a snapshot for at most a delete_delay. Afterwards it may still hold the state, as a handle that has
   slept, and asks it whether a source is accounted. */
proctype Reader() {
  unsigned leaf : 4, version : 3;
  bit stale;
  PROOF;
end_idle:
  do
  :: atomic { !open && roots -> stale = 0; leaf = 0; any_version(version, 1, VERSIONS) };
     read_root(version);
     atomic { whole = whole && root >= boundary; open = whole; low = boundary; held = (whole -> root : 0) };
     if
     :: whole ->
        atomic {
          whole = from >= low || gen >= low || NAMES(low, LEAF(HASH(root), gen));
          believe();
          leaf = (whole -> LEAF(HASH(root), gen) : 0);
          open = whole; held = (whole -> held : 0); waits = (whole -> waits : 0)
        }
     :: else
     fi;
     atomic { version = 0; forget() }
  :: atomic { open && leaf -> MUST(plans_end, BACK || HAS(leaves, leaf)) }
  :: atomic { open && leaf -> open = 0; held = 0; waits = 0; stale = 1 }
  :: atomic { stale ->
       if
       :: HAS(leaves, leaf)            /* it finds the source there */
       :: !HAS(leaves, leaf) ->
#ifdef BROKEN_MISSING_IS_NOT_ACCOUNTED
          MUST(counted_once, 0);
#endif
          stale = 0; leaf = 0          /* it starts again from a root that is there */
       fi
     }
  od
}

proctype Tagger() {
  unsigned version : 3;
  bit was;
  PROOF;
end_idle:
  do
  :: atomic { newest && !tagged -> was = BACK; any_version(version, 1, newest); version = (version > boundary -> version : 0) };
     if
     :: version ->
        if
        :: atomic { !HAS(roots, version) -> leaves = leaves | BIT(LEAF(HASH(version), version)) }
        :: HAS(roots, version)
        fi;
        put_root(version, version, version);
        prove_own();
        if
        :: whole ->
           tagged = tagged | BIT(version);
           atomic {
             if
             :: boundary < version && was == BACK ->
                promised = promised | BIT(version);
                MUST(tags_are_whole, HAS(roots, version) && IS_THERE(version, generation[version]))
#ifdef BROKEN_TAG_OF_ANOTHER
             :: else -> tagged = tagged & ~BIT(version)
#else
             :: boundary >= version && was == BACK -> tagged = tagged & ~BIT(version)
             :: was != BACK -> skip        /* the tag in the copy is another one: its commit refuses */
#endif
             fi
           }
        :: else
        fi
     :: else
     fi;
     atomic { version = 0; was = 0; forget() }
  :: atomic { promised -> tagged = tagged & ~promised; promised = 0 }
  od
}

#if COPIES
#define EACH(to, from) to[1] = from[1]; to[2] = from[2]; to[3] = from[3]; to[4] = from[4]; to[5] = from[5]

/* Takes a copy of the bucket, and puts it back once. */
proctype Copies() {
end_idle:
  atomic {
    newest ->
    copied_boundary = boundary; copied_roots = roots; copied_leaves = leaves;
    copied_tagged = tagged; copied_promised = promised;
    EACH(copied_generation, generation); EACH(copied_base, base)
  };
  atomic {
    boundary = copied_boundary; roots = copied_roots; leaves = copied_leaves;
    tagged = copied_tagged; promised = copied_promised;
    EACH(generation, copied_generation); EACH(base, copied_base);
    back = 1; proven = 0; open = 0; held = 0; waits = 0;
    copied_boundary = 0; copied_roots = 0; copied_leaves = 0; copied_tagged = 0; copied_promised = 0;
    copied_generation[1] = 0; copied_generation[2] = 0; copied_generation[3] = 0; copied_generation[4] = 0; copied_generation[5] = 0;
    copied_base[1] = 0; copied_base[2] = 0; copied_base[3] = 0; copied_base[4] = 0; copied_base[5] = 0
  }
}
#endif

init {
  byte n;
  atomic {
    run World();
    n = 0; do :: n < COLLECTORS -> run Collector(); n++ :: else -> break od;
    n = 0; do :: n < WRITERS -> run Writer(); n++ :: else -> break od;
    n = 0; do :: n < READERS -> run Reader(); n++ :: else -> break od;
#if COPIES
    run Copies();
#endif
    n = 0; do :: n < TAGGERS -> run Tagger(); n++ :: else -> break od;
    n = 0
  }
}
