/*
 * Tags, restore and expire against the collection of the index and the removal of blocks (3.3 to 3.5, R6, R8).
 *
 * A commit is one step here: commit.pml shows that it is as good as one. A version is the set of its live blocks. Whoever
 * tags may be overtaken at any step by collectors, which advance the boundary and delete checkpoints, and by removers,
 * which mark blocks that nothing names, delete them after a fresh decision, and withdraw marks.
 *
 * There is no clock. A decision to delete may be carried out at any time later, until half a delete_delay has passed; that
 * this time has passed since a tag was committed is an event, after which decisions from before that tag are dropped.
 */
#include "must.pml"

#ifndef VERSIONS
#define VERSIONS 6                     /* a commit that needs another version stops */
#endif
#ifndef COLLECTORS
#define COLLECTORS 2
#endif
#ifndef REMOVERS
#define REMOVERS 1
#endif
#ifndef TAGGERS
#define TAGGERS 2
#endif
#ifndef BLOCKS
#define BLOCKS 2                       /* numbered from 0; block 0 is live in version 1 */
#endif
#ifndef TAGGABLE
#define TAGGABLE 2                     /* versions from 1 that are tagged; of others the checkpoints do not matter here */
#endif
#ifndef EXPIRERS
#define EXPIRERS 1
#endif
#define ALL (BIT(BLOCKS) - 1)

hidden byte versions_are_whole;        /* every version above the boundary, and every tagged one, has all its blocks */
hidden byte tags_are_readable;         /* a tagged version below the boundary has its checkpoint */
hidden byte marks_what_nothing_names;  /* R6 */
hidden byte removes_what_is_live;      /* an entry removes live blocks only: else it could not be folded */

/* The bucket. */
unsigned versions : 24;                /* the live blocks of every version, three bits each */
unsigned latest : 3 = 1;
unsigned boundary : 3;
unsigned checkpoints : 4;              /* of taggable versions */
unsigned present : 3 = 1, marked : 3;  /* blocks */
unsigned tag1 : 3, tag2 : 3;           /* the version for which a tag stands in the latest state; 0 = no such tag */

/* What was acknowledged to the caller of tag. */
unsigned promised1 : 3, promised2 : 3;

/* Time: whether half a delete_delay has passed since the tag's entry, and whose decisions are how old, by process. */
bit old1, old2;
unsigned deciding : 8, before1 : 8, before2 : 8, dropped : 8;

#define LIVE(version) ((versions >> (3 * (version))) & 7)
#define FROM(low, version) (LIVE(version) * ((version) > (low) && (version) <= latest))
/* The blocks of all versions above `low`, up to the latest. */
#define NAMED_ABOVE(low) (FROM(low, 1) | FROM(low, 2) | FROM(low, 3) | FROM(low, 4) | FROM(low, 5) | FROM(low, 6) | \
                          FROM(low, 7))
#define TAGGED (LIVE(tag1) | LIVE(tag2))
#define PROMISED (LIVE(promised1) | LIVE(promised2))

inline commit(blocks) {
  latest++;
  versions = versions | ((blocks) << (3 * latest));
  printf("%d: version %d has blocks %d\n", _pid, latest, blocks)
}

inline any(one, low, high) {
  one = low;
  do
  :: one < high -> one++
  :: break
  od
}

inline decided() { deciding = deciding | BIT(_pid) }
inline carried_out() {
  deciding = deciding & ~BIT(_pid);
  before1 = before1 & ~BIT(_pid);
  before2 = before2 & ~BIT(_pid);
  dropped = dropped & ~BIT(_pid)
}
#ifdef BROKEN_DECISIONS_NEVER_GROW_OLD
#define TOO_OLD false
#else
#define TOO_OLD HAS(dropped, _pid)
#endif

/* Appends, merges and whatever else makes versions; a block is uploaded and published in one step. Retention, which may
   write its entry when what it saw live has gone. Half a delete_delay. */
proctype World() {
  unsigned old : 2, new : 2;
end_idle:
  do
  :: atomic { latest < VERSIONS -> commit(LIVE(latest)) }
  :: atomic { latest < VERSIONS && (present | marked | NAMED_ABOVE(0)) != ALL ->
       new = ((present | marked | NAMED_ABOVE(0)) & 2 -> 2 : 1);
       present = present | BIT(new);
       if
       :: commit(BIT(new))             /* a merge: it takes the place of all others */
       :: commit(LIVE(latest) | BIT(new))
       fi;
       new = 0
     }
  :: atomic { tag1 && !old1 -> old1 = 1; dropped = dropped | before1; before1 = 0 }
  :: atomic { tag2 && !old2 -> old2 = 1; dropped = dropped | before2; before2 = 0 }
  od
}

proctype Expirer() {
  unsigned doomed : 3;
end_idle:
  do
  :: atomic { LIVE(latest) -> doomed = LIVE(latest) };
     atomic {
       if
#ifdef BROKEN_EXPIRE_WITHOUT_LIVE_TEST
       :: latest < VERSIONS ->
#else
       :: latest < VERSIONS && (doomed & ~LIVE(latest)) == 0 ->
#endif
          MUST(removes_what_is_live, (doomed & ~LIVE(latest)) == 0);
          commit(LIVE(latest) & ~doomed)
       :: else                         /* Conflict */
       fi;
       doomed = 0
     }
  od
}

/*
 * tag, restore, untag. A version at or below the boundary is trusted only if a tag pinned it, in the state just before,
 * that has stood for half a delete_delay: only then no collector and no remover is left that decided without it.
 */
#ifdef BROKEN_PIN_OF_ANY_AGE
#define TRUSTS(tag, old, version) (tag == version)
#else
#define TRUSTS(tag, old, version) (tag == version && old)
#endif

inline tagger(tag, promised, old, before, other, old_other) {
  do
  :: atomic { true ->                  /* it was readable once, and is in memory */
       any(version, 1, TAGGABLE);
       version = (version > latest -> latest : version);
       checkpoints = checkpoints | BIT(version)
     };
end_full:
     atomic { latest < VERSIONS ->     /* the tag's entry */
       trusted = TRUSTS(other, old_other, version);
       commit(LIVE(latest));
       tag = version;
       old = 0;
       before = deciding
     };
     if
#ifdef BROKEN_TAG_TRUSTS_ITSELF
     :: trusted = 1
#else
     :: atomic { old -> trusted = 1 }  /* its process died here, and a later one tags again */
#endif
     :: true
     fi;
     atomic {                          /* the boundary */
#ifdef BROKEN_TAG_WITHOUT_CHECK
       fine = 1;
       looked = BLOCKS + 1
#else
       fine = version > boundary || trusted;
       looked = (version > boundary -> BLOCKS + 1 : 0);
#endif
       trusted = 0
     };
     do                                /* the checkpoint is there; every block is there and has no mark */
     :: atomic { fine && looked < BLOCKS ->
          fine = !HAS(LIVE(version), looked) || (HAS(present, looked) && !HAS(marked, looked));
          looked++
        }
     :: atomic { fine && looked == BLOCKS -> fine = HAS(checkpoints, version); looked++ }
     :: atomic { fine && looked > BLOCKS ->
          printf("%d: version %d is tagged\n", _pid, version);
          MUST(tags_are_readable, HAS(checkpoints, version));
          MUST(versions_are_whole, (LIVE(version) & ~present) == 0);
          promised = version;
          break
        }
     :: atomic { !fine -> break }      /* VersionExpired */
     od;
     looked = 0;
     if
     :: atomic { fine && latest < VERSIONS -> commit(LIVE(version)) }   /* restore */
     :: true
     fi;
     fine = 0;
end_full_too:
     atomic { latest < VERSIONS -> commit(LIVE(latest)); tag = 0; promised = 0; old = 0; before = 0; version = 0 }
  od
}
#define TAGGER_LOCALS unsigned version : 3, looked : 2; bit trusted, fine

proctype First() {
  TAGGER_LOCALS;
end_idle:
  tagger(tag1, promised1, old1, before1, tag2, old2)
}

proctype Second() {
  TAGGER_LOCALS;
end_idle:
  tagger(tag2, promised2, old2, before2, tag1, old1)
}

/* Collection of the index: advance; read the latest state again; delete the checkpoints that no tag in it pins. */
#define GOES(limit, version) (HAS(checkpoints, version) && version < limit && tag1 != version && tag2 != version)
proctype Collector() {
  unsigned doomed : 3, wanted : 3;
end_idle:
  do
  :: atomic { latest > boundary + 1 ->
       any(wanted, boundary + 1, latest - 1);
       checkpoints = checkpoints | BIT(wanted);
#ifdef BROKEN_COLLECTOR_WITHOUT_SECOND_READ
       doomed = (GOES(wanted, 1) -> 1 : (GOES(wanted, 2) -> 2 : 0));
       decided()
     };
     atomic {
#endif
       boundary = MAX(boundary, wanted);
       printf("%d: the boundary goes to %d\n", _pid, boundary);
       wanted = 0
     };
#ifndef BROKEN_COLLECTOR_WITHOUT_SECOND_READ
     if
     :: atomic { GOES(boundary, 1) -> doomed = 1; decided() }
     :: atomic { GOES(boundary, 2) -> doomed = 2; decided() }
     :: true
     fi;
#endif
     atomic {
       if
       :: doomed && !TOO_OLD ->
          printf("%d: checkpoint %d is deleted\n", _pid, doomed);
          MUST(tags_are_readable, promised1 != doomed && promised2 != doomed);
          checkpoints = checkpoints & ~BIT(doomed)
       :: else
       fi;
       doomed = 0;
       carried_out()
     }
  od
}

/*
 * The compactor's cleaning: the boundary first, then the state, and the checkpoints of its tags, one of which that is
 * missing stops the pass. What no version names is marked; after delete_delay, and a fresh decision, it is removed.
 */
#define MISSING(tag) (tag && tag <= low && !HAS(checkpoints, tag))
proctype Remover() {
  unsigned unnamed : 3, low : 3;
#ifdef BROKEN_REMOVAL_READS_STATE_FIRST
  unsigned tagged : 3, read : 3;
#endif
end_idle:
  do
#ifdef BROKEN_REMOVAL_READS_STATE_FIRST
  :: atomic { read = latest; tagged = TAGGED };
     atomic {
       low = boundary;
       unnamed = present & NAMED_ABOVE(0) & ~(NAMED_ABOVE(low) | tagged);
       decided();
       low = 0; read = 0; tagged = 0
     };
#else
  :: low = boundary;
     atomic {
       unnamed = present & NAMED_ABOVE(0) & ~(NAMED_ABOVE(low) | TAGGED);
       if
       :: MISSING(tag1) || MISSING(tag2) -> unnamed = 0
       :: else -> decided()
       fi;
       low = 0
     };
#endif
     if
     :: atomic { (unnamed & ~marked) && !TOO_OLD ->
          printf("%d: blocks %d are marked\n", _pid, unnamed & ~marked);
          MUST(marks_what_nothing_names, (unnamed & ~marked & (NAMED_ABOVE(boundary) | PROMISED)) == 0);
          marked = marked | unnamed
        }
     :: atomic { (unnamed & marked) && !TOO_OLD ->
          printf("%d: blocks %d are removed\n", _pid, unnamed & marked);
          MUST(versions_are_whole, (unnamed & marked & (NAMED_ABOVE(boundary) | PROMISED)) == 0);
          present = present & ~(unnamed & marked);
          marked = marked & present
        }
     :: atomic { (marked & ~unnamed) && !TOO_OLD -> marked = marked & unnamed }
     :: true
     fi;
     atomic { unnamed = 0; carried_out() }
  od
}

init {
  atomic {
    versions = 1 << 3;                 /* version 1 has block 0 */
    run World();
#if EXPIRERS > 0
    run Expirer();
#endif
    run First();
#if TAGGERS > 1
    run Second();
#endif
#if COLLECTORS > 0
    run Collector();
#endif
#if COLLECTORS > 1
    run Collector();
#endif
#if REMOVERS > 0
    run Remover();
#endif
#if REMOVERS > 1
    run Remover()
#endif
  }
}
