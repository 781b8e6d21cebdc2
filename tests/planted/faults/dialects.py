"""How databases say what has no portable words."""

from tests.planted.faults.fault import Fault

SERVER = "tests/ledger/postgres/test_statements.py"
TIME = "tests/ledger/postgres/test_ledger_time.py"
HORIZON = "tests/ledger/postgres/test_feed_horizon.py"

STATE = "tests/ledger/administration/test_server_state.py"
COPYING = "tests/ledger/copying/test_ledger_copy.py"
BESIDE = "tests/api/admin/test_companion_copies.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a statement for all databases changes what SQLite is sent",
        path="orchestrator/ledger/sqlite/statements.py::_unindexed",
        old='return f"+{compiler.process(element.column, **kw)}"',
        new="return compiler.process(element.column, **kw)",
        tests=("tests/ledger/sqlite/test_recording.py::test_what_stands_in_the_ledger_is_what_sqlite_was_sent_before",),
    ),
    Fault(
        name="a statement is composed as it is executed, and not as it was",
        path="orchestrator/ledger/sqlite/statements.py::_as_number",
        old="return compiler.process(condition.self_group(against=operators.add), **kw)",
        new="return compiler.process(condition, **kw)",
        tests=("tests/conformance/test_selection.py::test_the_ledger_chooses_the_jobs_that_a_filter_means",),
    ),
    Fault(
        name="a server is told the greatest of what is known",
        path="orchestrator/ledger/postgres/expressions.py::_extreme",
        old='return f"CASE WHEN num_nulls({typed}) = 0 THEN {name}({typed}) END"',
        new='return f"{name}({typed})"',
        tests=(f"{SERVER}::test_an_extreme_of_nothing_known_is_unknown",),
    ),
    Fault(
        name="of rows about the same row a server takes one",
        path="orchestrator/ledger/postgres/statements.py::PostgresMany._about_a_row_each",
        old="if key is None or len(set(map(key, rows))) == len(rows):",
        new="if True:",
        tests=(f"{SERVER}::test_rows_about_the_same_row_are_taken_one_after_the_other",),
    ),
    Fault(
        name="what a server is not told of the first row it is told of none",
        path="orchestrator/ledger/postgres/statements.py::_Arrays.of",
        old="if column[0] is None and column.count(None) == len(column) else",
        new="if column[0] is None else",
        tests=(f"{SERVER}::test_what_is_unknown_in_all_rows_is_so_in_each_whichever_comes_first",),
    ),
    Fault(
        name="what is the same in most rows is written as the same in all",
        path="orchestrator/ledger/postgres/texts.py::_are_the_same",
        old="values.count(values[0]) == len(values)",
        new="values[0] == values[-1]",
        tests=("tests/ledger/postgres/test_texts.py::test_what_is_the_same_in_all_rows_is_there_in_each",),
    ),
    Fault(
        name="a server is sent a NUL in what a worker said",
        path="orchestrator/ledger/postgres/texts.py::_replaced",
        old='return text.replace("\\0", REPLACEMENT) if text.isascii() else _REFUSED.sub(REPLACEMENT, text)',
        new="return text",
        tests=("tests/conformance/test_foreign_texts.py::test_a_nul_in_what_a_worker_says_holds_nothing_up",),
    ),
    Fault(
        name="a server is sent texts whose quotes end them",
        path="orchestrator/ledger/postgres/texts.py::_quoted",
        old="""return '"' + text.replace("\\\\", r"\\\\").replace('"', r"\\"") + '"'""",
        new="""return '"' + text.replace("\\\\", r"\\\\") + '"'""",
        tests=("tests/ledger/postgres/test_texts.py::test_what_stands_in_arrays_comes_back_as_it_was",),
    ),
    Fault(
        name="the feed goes on after an event that a slower transaction comes before",
        path="orchestrator/ledger/reports/event_feed.py::Feed.page",
        old="return [each for each in page if each.place <= horizon] or (None if page else [])",
        new="return page",
        tests=(f"{HORIZON}::test_an_event_waits_for_those_that_a_slower_transaction_may_still_bring",),
    ),
    Fault(
        name="who has begun to write since the last look counts from now on",
        path="orchestrator/ledger/postgres/feed_horizon.py::FeedHorizon.now",
        old="self._behind = {each: self._behind.get(each, self._last) for each in writing}",
        new="self._behind = {each: self._behind.get(each, last) for each in writing}",
        tests=(f"{HORIZON}::test_an_event_waits_for_those_that_a_slower_transaction_may_still_bring",),
    ),
    Fault(
        name="the row of a sequence is believed while the server changes it",
        path="orchestrator/ledger/postgres/tables.py::following_number",
        old="return _FOLLOWING.format(name=sequence)",
        new='return f"SELECT last_value + is_called::int FROM {sequence}"',
        tests=("tests/ledger/postgres/test_number_sequences.py::test_no_number_comes_that_was_said_to_be_gone",),
    ),
    Fault(
        name="a claim goes along the key of all jobs",
        path="orchestrator/ledger/postgres/expressions.py::_not_by_key",
        old='return f"({compiler.process(element.column, **kw)} + 0)"',
        new="return compiler.process(element.column, **kw)",
        tests=("tests/ledger/postgres/test_plans.py::test_what_is_sought_is_found_in_its_index",),
    ),
    Fault(
        name="a ledger on a server has the time of each machine",
        path="orchestrator/ledger/postgres/server_clock.py::server_time",
        old="if not isinstance(clock, SystemClock):",
        new="if True:",
        tests=(
            f"{TIME}::test_a_schedule_fires_once_whichever_machine_looks",
            f"{TIME}::test_nothing_is_brought_back_that_a_machine_with_another_clock_has_left",
        ),
    ),
    Fault(
        name="an engine has another time than its ledger",
        path="orchestrator/engine/process/engine_process.py::open_process",
        old="dependencies = dependencies.with_clock(ledger.clock)",
        new="",
        tests=(f"{TIME}::test_an_engine_has_the_ledgers_time_too",),
    ),
    Fault(
        name="a server's clock that is set back stops the time of its ledger",
        path="orchestrator/ledger/postgres/server_clock.py::ServerClock.look",
        old="self._not_followed_us -= change_us",
        new="self._ahead_us += change_us",
        tests=(
            "tests/ledger/postgres/test_server_clock.py::test_a_server_that_is_set_forward_is_followed_and_one_that_is_set_back_is_not",
        ),
    ),
    Fault(
        name="what was copied is not compared",
        path="orchestrator/ledger/copying/ledger_copy.py::_rows_copied",
        old="if await _seal_of(table, to, progress, also=of) != copied[table]:",
        new="if (await _seal_of(table, to, progress, also=of))[0] != copied[table][0]:",
        tests=(f"{COPYING}::test_rows_that_came_otherwise_are_noticed",),
    ),
    Fault(
        name="a copy gives the numbers of removed runs again",
        path="orchestrator/ledger/copying/ledger_copy.py::_table_copied",
        old="await numbers.go_on_at(to, await numbers.following(of))",
        new="await numbers.go_on_at(to, rows.seal[0] + 1)",
        tests=(f"{COPYING}::test_it_goes_on_where_it_is_and_no_number_comes_again",),
    ),
    Fault(
        name="a ledger whose copy came to nothing counts no more",
        path="orchestrator/ledger/copying/ledger_copy.py::_copied",
        old="if not _kept_tables(await _rows_of(target)):",
        new="if _kept_tables(await _rows_of(target)):",
        tests=(f"{COPYING}::test_the_source_counts_again_where_the_last_word_of_the_target_fails",),
    ),
    Fault(
        name="a ledger that was copied without a run counts at both places",
        path="orchestrator/ledger/copying/ledger_copy.py::_kept_tables",
        old="return sorted(name for name, n in rows.items() if n and name not in passing)",
        new="return [runs.name] if rows[runs.name] else []",
        tests=(
            f"{COPYING}::test_what_went_there_without_a_run_counts_there_alone_though_the_command_is_given_again",
            f"{COPYING}::test_whatever_else_is_there_is_named_and_left",
        ),
    ),
    Fault(
        name="what a process said of itself that had nothing to do stays where a copy comes",
        path="orchestrator/ledger/copying/ledger_copy.py::_rows_copied",
        old="await to.execute(delete(table))",
        new="pass",
        tests=(f"{COPYING}::test_one_that_was_served_and_had_nothing_to_do_is_as_good_as_a_new_one",),
    ),
    Fault(
        name="somebody may work on a ledger that counts again while it is copied",
        path="orchestrator/ledger/copying/ledger_copy.py::copy_ledger",
        old="await held.enter_async_context(source.holding(now=clock.now(), doing=_DOING))",
        new="pass",
        tests=(f"{COPYING}::test_what_lies_beside_may_take_its_time_while_nobody_works_on_either",),
    ),
    Fault(
        name="a server waits in a transaction for the files beside a ledger",
        path="orchestrator/ledger/copying/ledger_copy.py::copy_ledger",
        old="await copy_beside()",
        new="async with source.database.writing(): await copy_beside()",
        tests=(f"{COPYING}::test_what_lies_beside_may_take_its_time_while_nobody_works_on_either",),
    ),
    Fault(
        name="whatever lies beside a ledger already is taken for its copy",
        path="orchestrator/api/admin/companion_copies.py::_file_copied",
        old="if copy.is_file() and _is_same(found, copy.stat()):",
        new="if copy.exists():",
        tests=(
            f"{BESIDE}::test_of_what_was_rehearsed_there_nothing_old_is_left",
            f"{BESIDE}::test_another_key_is_refused_and_one_that_was_cut_off_is_none",
        ),
    ),
    Fault(
        name="a link to the dashboard leads in twice, once at the copy of its ledger",
        path="orchestrator/api/admin/companion_copies.py::_remove_used",
        old="if not (path / each.name).exists():",
        new="if False:",
        tests=(f"{BESIDE}::test_of_what_was_rehearsed_there_nothing_old_is_left",),
    ),
    Fault(
        name="the webhook key of another ledger is written over",
        path="orchestrator/api/admin/companion_copies.py::_refuse_other_key",
        old='if copy.exists() and copy.read_bytes() not in {path.read_bytes(), b""}:',
        new="if False:",
        tests=(f"{BESIDE}::test_another_key_is_refused_and_one_that_was_cut_off_is_none",),
    ),
    Fault(
        name="known custom_ids of a new run are sought among all of its rows",
        path="orchestrator/ledger/postgres/expressions.py::_named_in_batch",
        old='return f"{number} = ANY(ARRAY({compiler.process(element.numbers, **kw)}))"',
        new="return compiler.process(element.meets, **kw)",
        tests=(
            "tests/ledger/postgres/test_plans.py::test_names_are_sought_in_their_index_in_a_run_that_has_grown_since_anybody_looked",
        ),
    ),
    Fault(
        name="known custom_ids are sought as seems best of a run of which nothing is known",
        path="orchestrator/ledger/named_batches.py::found_by_name",
        old="    await connection.execute(_IN_ORDER_OF_NAMES)\n",
        new="",
        tests=(
            "tests/ledger/postgres/test_plans.py::test_names_are_sought_in_their_index_in_a_run_that_has_grown_since_anybody_looked",
        ),
    ),
    Fault(
        name="for each custom_id all rows that were removed behind it are gone through",
        path="orchestrator/ledger/named_batches.py::NamedInBatch.__init__",
        old="rows[name.name].between(TEXTS.c.value, TEXTS.c.value)",
        new="rows[name.name] >= TEXTS.c.value",
        tests=(
            "tests/ledger/postgres/test_plans.py::test_what_was_removed_and_is_seen_by_others_still_is_not_gone_through",
        ),
    ),
    Fault(
        name="a writer goes on going through all rows of a table that was small once",
        path="orchestrator/ledger/postgres/database.py::ServerDatabase._writing_connection",
        old='{**settings, "enable_seqscan": "off"}',
        new="settings",
        tests=(
            "tests/ledger/postgres/test_plans.py::test_a_writer_goes_by_indexes_also_where_there_are_hardly_any_rows",
        ),
    ),
    Fault(
        name="a ledger cannot be copied from a server while one of its tables is vacuumed",
        path="orchestrator/ledger/postgres/statements.py::PostgresWriteStop.put_up",
        old='await driver.execute(f"{_PATIENT}; {_STOP}")',
        new="await driver.execute(_STOP)",
        tests=(f"{COPYING}::test_a_vacuum_of_what_was_copied_is_waited_for",),
    ),
    Fault(
        name="a copy on a server takes any key of webhooks",
        path="orchestrator/ledger/copying/ledger_copy.py::_copied",
        old="(key := await _webhook_key_of(source, of))",
        new="(key := '')",
        tests=(f"{COPYING}::test_every_machine_has_to_have_the_webhook_key_of_what_came",),
    ),
    Fault(
        name="who may not bring older tables up to date tries it all the same",
        path="orchestrator/ledger/sites/server_site.py::ServerSite._make_room_for_owners",
        old="await self.inspection.check_upgrade()",
        new="pass",
        tests=(
            "tests/ledger/administration/test_roles.py::test_who_may_not_bring_older_tables_up_to_date_is_told_who_may",
        ),
    ),
    Fault(
        name="who may not write the tables anew is told that it is done",
        path="orchestrator/ledger/administration/server_inspection.py::ServerInspection.check_owner",
        old="if (owner := await self._other_owner()) is not None:",
        new="if False:",
        tests=(f"{STATE}::test_the_owner_alone_writes_the_tables_anew_and_is_told_how_large_they_are",),
    ),
    Fault(
        name="a dashboard beside a process has no password for its ledger",
        path="orchestrator/cli/framework/dashboard_child.py::_KEPT",
        old="|PGPASSWORD|PGPASSFILE",
        new="",
        tests=(
            "tests/cli/framework/test_dashboard_child.py::test_the_child_reaches_a_ledger_on_a_server_as_its_parent_does",
        ),
    ),
)
