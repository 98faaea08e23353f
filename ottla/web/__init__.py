"""The web page of a cluster (`ottla web`): topics, messages, groups, brokers, and what can be changed of them.

One process with one client, which works with any cluster that speaks Kafka's protocol; a cluster of Ottla's on the same
machine adds its journals. Pages are rendered here, and the parts of them that move are fetched again by htmx.

- `models/` computes what a page shows from what the client returns: plain values, no I/O.
- `pages/` has one module a page: it asks, and hands a model to its template.
- `application.py` puts them together behind `guard.py`, which lets nobody in who should not be.

Every call to the cluster has a deadline, and what fails becomes a sentence in its place on the page.
"""
