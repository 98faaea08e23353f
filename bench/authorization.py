"""What access rules cost a request: ``python -m bench.authorization [--rules N]``.

A subject keeps its verdicts while the rules stay, so what counts on the way of a request is the kept verdict; the first
question about a resource looks the rules up.
"""

import argparse
import time

from cluster.security.acl import AclRule, Operation, PatternType, Permission, ResourcePattern, ResourceType
from cluster.security.authorizer import Authorizer

QUESTIONS = 200_000


def main() -> None:
    """Time repeated and first questions about topics to an authorizer with many rules."""
    parser = argparse.ArgumentParser(prog="python -m bench.authorization", description=__doc__)
    parser.add_argument("--rules", type=int, default=10_000)
    rules = parser.parse_args().rules
    authorizer = Authorizer()
    authorizer.table.replace_all(
        (
            ResourcePattern(
                ResourceType.TOPIC,
                f"topic-{number}",
                PatternType.PREFIXED if number % 4 == 0 else PatternType.LITERAL,
            ),
            frozenset({AclRule(f"User:user-{number % 100}", "*", Operation.WRITE, Permission.ALLOW)}),
        )
        for number in range(rules)
    )
    subject = authorizer.subject("User:user-7", "10.0.0.1")
    names = [f"topic-{number}" for number in range(100)]
    began = time.process_time()
    for number in range(QUESTIONS):
        subject.may(Operation.WRITE, ResourceType.TOPIC, names[number % 100])
    kept = time.process_time() - began
    began = time.process_time()
    for number in range(rules):
        subject.may(Operation.WRITE, ResourceType.TOPIC, f"topic-{number}")
    first = time.process_time() - began
    print(
        f"{rules:,} rules: a kept verdict {kept / QUESTIONS * 1e9:.0f} ns, a first one {first / rules * 1e6:.1f} us"
    )


if __name__ == "__main__":
    main()
