"""The gateways of a group, each of which caches some of the tables.

Gateways are stateless: any of them answers any query. Behind a balancer each of them would cache
the chunks of every table. In a group each table has an owner, which every gateway computes for
itself (rendezvous hashing), and a query that arrives elsewhere is passed on to the owner of its
table:

    PeerSettings the group as it is configured (group.py)
    Peers        what a gateway knows of the others: the owner of a query, and calls (peers.py)
    Members      who is in the group and ready; DNS, probes (members.py)
    Call         one request to another gateway, which can be cancelled (calls.py)
    owner_of     the owner of a key, as a pure function (rendezvous.py)

Nothing depends on the group for its correctness: where an owner does not answer, the query is
answered where it arrived. ``reader/http/passing.py`` decides what is passed on.
"""

from blockstore.reader.peers.calls import Call
from blockstore.reader.peers.group import PeerSettings
from blockstore.reader.peers.members import Members
from blockstore.reader.peers.peers import Peers
from blockstore.reader.peers.rendezvous import owner_of

__all__ = ["Call", "Members", "PeerSettings", "Peers", "owner_of"]
