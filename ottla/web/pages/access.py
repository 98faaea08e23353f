"""Access: rules and the users with SCRAM credentials."""

from typing import Final

from starlette.responses import Response

from ottla.client.admin.acls import Acl, AclSelection
from ottla.web.answers import attempt_all
from ottla.web.forms import Form, FormError
from ottla.web.models.access import rule_fields, rule_of
from ottla.web.paging import page_of
from ottla.web.visit import Visit
from security.scram import ScramMechanism
from wire.acl_codes import OPERATIONS_OF, Operation, PatternType, Permission, ResourceType, pascal

_ITERATIONS: Final = 8192
_PASSWORD_MIN: Final = 8


async def show(visit: Visit) -> Response:
    """Show rules and users."""
    admin = visit.admin
    acls, users = await attempt_all(admin.list_acls, admin.describe_scram_users)
    search = visit.query.text("search").lower()
    rules: list[Acl] = [
        each for each in acls.or_else([]) if search in each.principal.lower() or search in each.name.lower()
    ]
    return visit.page(
        "access.html",
        "access",
        rules=page_of(rules, visit.query.text("page")),
        rules_problem=acls.problem,
        users=sorted(users.or_else({}).items()),
        users_problem=users.problem,
        search=visit.query.text("search"),
        rule_fields=rule_fields,
        pascal=pascal,
        types=list(ResourceType),
        patterns=(PatternType.LITERAL, PatternType.PREFIXED),
        operations=list(Operation),
        operations_of=OPERATIONS_OF,
        permissions=(Permission.ALLOW, Permission.DENY),
        mechanisms=list(ScramMechanism),
    )


async def add_rule(visit: Visit) -> Response:
    """Create a rule."""
    rule = rule_of(visit.form)
    await visit.admin.create_acls([rule])
    return visit.go("/access", f"{rule.principal} is {'allowed' if rule.permission is Permission.ALLOW else 'denied'} "
                    f"{pascal(rule.operation)} on {pascal(rule.resource_type)} {rule.name}.")  # fmt: skip


async def remove_rule(visit: Visit) -> Response:
    """Delete a rule."""
    rule = rule_of(visit.form)
    deleted = await visit.admin.delete_acls([AclSelection(*rule)])
    if not deleted:
        raise FormError("There is no such rule any more.")
    return visit.go("/access", f"Deleted the rule for {rule.principal} on {rule.name}.")


async def set_user(visit: Visit) -> Response:
    """Set a user's password for one mechanism, or for both."""
    name = visit.form.required("user", "The user")
    password = visit.form.get("password", "")
    if len(password) < _PASSWORD_MIN:
        raise FormError(f"The password has at least {_PASSWORD_MIN} characters.")
    chosen = _mechanisms(visit.form)
    await visit.admin.alter_scram_credentials(name, dict.fromkeys(chosen, (password, _ITERATIONS)))
    return visit.go(
        "/access#users", f"{name} has a new password for {', '.join(each.value for each in chosen)}."
    )


async def remove_user(visit: Visit) -> Response:
    """Remove a user's credential for a mechanism."""
    name = visit.form.required("user", "The user")
    chosen = _mechanisms(visit.form)
    await visit.admin.alter_scram_credentials(name, {}, chosen)
    return visit.go("/access#users", f"{name} has no {', '.join(each.value for each in chosen)} any more.")


def _mechanisms(form: Form) -> list[ScramMechanism]:
    chosen = [each for each in ScramMechanism if each.value in form.all("mechanism")]
    if not chosen:
        raise FormError("Choose a mechanism.")
    return chosen
