"""Client quotas: of users, client ids and addresses. Any broker answers."""

from collections.abc import Mapping
from typing import Final

from ottla.client.admin.router import Router, raise_for
from wire.messages import alter_client_quotas, describe_client_quotas

EntityParts = Mapping[str, str | None]
"""The names by kind: `user`, `client-id`, `ip`; None is the default of the kind."""

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


class QuotasAdmin:
    """The admin client's calls for client quotas."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_quotas(
        self, wanted: Mapping[str, str | type[object] | None], *, strict: bool = False
    ) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Return entities and their quotas.

        Args:
            wanted: The parts that an entity must have: a name, None for the default, `object` for any.
            strict: Whether to leave out entities that have other parts.

        Raises:
            ClientError: the cluster refuses.
        """
        request = describe_client_quotas.DescribeClientQuotasRequest(
            components=[
                describe_client_quotas.ComponentData(
                    entity_type=kind,
                    match_type=_EXACT if isinstance(name, str) else _DEFAULT if name is None else _ANY,
                    match=name if isinstance(name, str) else None,
                )
                for kind, name in wanted.items()
            ],
            strict=strict,
        )
        answer: describe_client_quotas.DescribeClientQuotasResponse = await self._router.ask_any(request)
        raise_for(answer.error_code, answer.error_message, "the quotas")
        return [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    async def alter_quotas(
        self, entity: EntityParts, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set or remove quotas of one entity, leaving the others as they are.

        Args:
            entity: Whose.
            changes: The new values by key; None removes one.
            validate_only: Whether to check only.

        Raises:
            ClientError: the change cannot be made.
        """
        request = alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.EntryData(
                    entity=[
                        alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    ops=[
                        alter_client_quotas.OpData(
                            key=key, value=0.0 if value is None else value, remove=value is None
                        )
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )
        answer: alter_client_quotas.AlterClientQuotasResponse = await self._router.ask_any(request)
        for entry in answer.entries:
            raise_for(entry.error_code, entry.error_message, "the quota")
