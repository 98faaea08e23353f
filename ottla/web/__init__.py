"""The web page of a cluster (`ottla web`): topics, messages, groups, brokers, and the changes that can be made to them.

One process with one client, which works with any cluster that speaks Kafka's protocol; an Ottla cluster on the same
machine adds its journals. Pages are rendered here, and htmx fetches their changing parts again.

- `models/` computes what a page shows from what the client returns: plain values, no I/O.
- `pages/` has one module for each page: it asks the cluster, and hands a model to its template.
- `application.py` puts them together behind `guard.py`, which refuses unwanted requests.

Every call to the cluster has a deadline; on the page, a sentence takes the place of a result that failed.
"""
