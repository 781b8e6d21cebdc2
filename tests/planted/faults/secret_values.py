"""Secrets that reach a ledger on a server, and with it its dumps and the server's log."""

from tests.planted.faults.fault import Fault

_DUMP = (
    "tests/system/test_secrets_on_server.py"
    "::test_no_secret_is_in_a_dump_of_the_ledger_in_the_servers_log_or_in_what_it_is_seen_at"
)

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a ledger on a server notes the webhook key itself",
        path="orchestrator/ledger/sites/webhook_key.py::fingerprint",
        old='return hashlib.sha256(b"orchestrator webhook key " + key).hexdigest()',
        new="return key.hex()",
        tests=(
            _DUMP,
            "tests/system/test_on_server.py::test_a_webhook_key_of_another_machine_is_refused_and_one_that_is_given_is_kept_out_of_the_ledger",
        ),
    ),
    Fault(
        name="what a worker gives back reaches a ledger on a server with the secrets in it",
        path="orchestrator/engine/runtime/secret_scrubber.py::SecretScrubber.scrub",
        old="return self._redactor.scrub(text)",
        new="return text",
        tests=(_DUMP,),
    ),
)
