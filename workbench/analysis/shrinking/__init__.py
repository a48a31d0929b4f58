"""The smallest row that still shows the same fault.

The design is that of delta debugging, and of reducers such as C-Reduce and Shrink Ray: a predicate, an order of
simplicity and many small passes, none of which needs to know about the others.

* ``fault``: what goes wrong with a row on a path, as something that two rows can have in common, and the predicate.
  It asks the risk, which covers every arrival order; nothing is run and hoped to lose.
* ``candidate``: a row on its way, the parts that its path sees, and how simple it is. A pass keeps a candidate only if
  it is simpler, so that shrinking ends.
* ``passes``: each proposes rows and hears which were kept.
* ``shrink``: passes over and over, until none of them finds anything: a local minimum.
"""
