"""
The catalogue of attacks, and where each is mounted.

Decided here: which test mounts which row, which rows cannot be run, and where our answer is another
than the catalogue's, and why. `test_catalogue` holds the table against the catalogue and the tests.

    python -m tests.attacks.catalogue     says how many are mounted
"""

from __future__ import annotations

MODULES = {
    "calls": "tests/crash/test_calls_of_the_system.py",
    "command": "tests/attacks/test_attacks_command.py",
    "exhaustive": "tests/attacks/test_exhaustive.py",
    "exports": "tests/attacks/test_attacks_exports.py",
    "faulty": "tests/crash/test_faulty_runs.py",
    "forward": "tests/attacks/test_attacks_forward.py",
    "keys": "tests/attacks/test_attacks_keys.py",
    "killed": "tests/crash/test_checkpoints_killed.py",
    "ledger": "tests/attacks/test_attacks_ledger.py",
    "levels": "tests/attacks/test_attacks_levels.py",
    "receipt": "tests/conformance/test_receipt_command.py",
    "v1": "tests/attacks/test_attacks_v1.py",
    "writer": "tests/attacks/test_attacks_v1_writer.py",
}

# One change of one receipt each, put to the verifier, to the next start and to the command.
AS_A_PERSON_SEES_IT = [
    "C02",
    "C03",
    "C04",
    "C05",
    "C06",
    "C07",
    "C08",
    "C09",
    "C10",
    "S01",
    "S02",
    "S03",
    "S04",
    "S05",
    "S06",
    "S07",
    "S08",
    "S09",
    "S10",
    "S11",
    "S12",
    "T03",
    "T05",
    "T06",
    "T10",
    "T11",
    "R01",
    "R03",
    "R04",
    "R05",
    "R09",
    "K01",
    "K02",
    "K03",
    "K04",
    "K05",
    "K06",
    "K07",
    "K08",
    "K09",
    "K10",
    "K15",
    "K19",
    "E01",
    "E02",
    "E03",
    "E04",
    "E05",
    "E06",
    "E07",
    "E08",
    "E09",
    "E10",
    "E11",
    "E12",
    "E13",
    "E15",
    "E16",
    "E17",
    "E18",
    "E19",
    "E20",
    "E21",
    "E22",
    "E23",
    "E24",
    "E25",
    "E27",
    "E28",
    "E29",
    "E30",
    "F01",
    "F02",
    "F04",
    "F05",
    "F06",
    "F14",
    "M04",
    "W04",
    "W07",
    "D06",
    "D07",
    "D08",
    "D09",
    "D10",
    "X06",
    "Y07",
]

MOUNTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(AS_A_PERSON_SEES_IT, ("command::test_as_a_person_sees_it",)),
    "C01": (
        "exhaustive::test_every_flipped_bit_of_a_sealed_receipt",
        "exhaustive::test_every_flipped_bit_under_a_signature_alone",
        "v1::test_c01_t01_no_bit_and_no_cut_survives",
    ),
    "C11": ("levels::test_c11_history_and_head_rewritten",),
    "T01": (
        "exhaustive::test_every_cut_of_an_open_receipt",
        "exhaustive::test_every_cut_of_a_sealed_receipt",
        "v1::test_c01_t01_no_bit_and_no_cut_survives",
    ),
    "T02": (
        "v1::test_t02_without_a_head_a_cut_cannot_be_seen",
        "receipt::test_t02_no_head",
    ),
    "T04": (
        "v1::test_t04_who_demands_a_seal_reads_the_state",
        "receipt::test_t04_require_seal",
    ),
    "T07": ("ledger::test_t07_the_receipt_and_its_head_deleted",),
    "T08": (
        "command::test_t08_everything_deleted",
        "ledger::test_t08_everything_deleted",
    ),
    "T09": (
        "levels::test_t09_the_end_cut_and_the_head_rewritten",
        "forward::test_t09_the_tail_is_cut_and_the_head_rewritten",
        "forward::test_t09_the_tail_is_cut_and_sealed",
    ),
    "T12": (
        "ledger::test_t12_every_receipt_deleted",
        "v1::test_t12_deleted_receipts_are_missed",
    ),
    "R02": (
        "ledger::test_r02_yesterdays_receipt_and_head",
        "levels::test_r02_receipt_and_head_from_an_older_copy",
    ),
    "R06": ("levels::test_r06_checkpoints_swapped",),
    "R07": ("levels::test_r07_two_histories_of_one_session",),
    "R08": ("ledger::test_r08_a_name_used_again",),
    "K11": ("forward::test_k11_a_line_before_the_theft_is_rewritten",),
    "K12": (
        "forward::test_k12_old_content_under_the_current_key",
        "forward::test_k12_the_stolen_key_is_line_n_s_alone",
    ),
    "K13": (
        "forward::test_k13_steps_are_skipped_to_hide_lines",
        "forward::test_k13_the_stolen_ratchet_steps_on",
    ),
    "K14": (
        "levels::test_k14_a_verifier_who_holds_the_secret_forges",
        "forward::test_k14_an_auditor_forges",
    ),
    "K16": (
        "ledger::test_k16_a_key_that_was_rotated_away",
        "keys::test_k16_a_key_that_was_rotated_away",
        "keys::test_k16_a_session_begun_with_it",
    ),
    "K17": (
        "ledger::test_k17_a_forged_rotation",
        "keys::test_k17_a_rotation_signed_with_the_new_key",
        "keys::test_k17_a_rotation_that_the_key_in_use_did_not_follow",
    ),
    "K18": (
        "ledger::test_k18_planted_archived_keys",
        "keys::test_k18_a_planted_archive",
        "keys::test_k18_a_planted_archive_that_names_the_key_in_use",
    ),
    "E14": (
        "command::test_e14_e26_g06_text_that_deceives",
        "v1::test_e14_deceiving_text_is_spelled_out",
    ),
    "E26": (
        "command::test_e14_e26_g06_text_that_deceives",
        "v1::test_e26_only_the_newline_splits_lines",
    ),
    "F03": ("command::test_f03_a_folder_that_is_a_link",),
    "F07": (
        "command::test_f07_f08_f12_names_and_owners",
        "v1::test_f07_another_owner",
    ),
    "F08": (
        "command::test_f07_f08_f12_names_and_owners",
        "v1::test_f08_f12_session_names",
    ),
    "F09": ("writer::test_f09_a_file_made_beforehand",),
    "F10": ("writer::test_f10_f11_a_file_moved_away_under_the_writer",),
    "F11": ("writer::test_f10_f11_a_file_moved_away_under_the_writer",),
    "F12": (
        "command::test_f07_f08_f12_names_and_owners",
        "v1::test_f08_f12_session_names",
    ),
    "F13": ("command::test_f13_another_file_system_on_top",),
    "F15": (
        "writer::test_f15_the_lock_removed_while_held",
        "faulty::test_a_file_is_taken_away",
    ),
    "M01": (
        "command::test_m01_m03_clocks",
        "v1::test_m01_a_clock_set_back_is_a_warning",
        "faulty::test_a_clock_that_is_set_back",
    ),
    "M02": ("command::test_m02_lines_dated_back",),
    "M03": (
        "command::test_m01_m03_clocks",
        "v1::test_m03_the_future_is_a_warning",
    ),
    "W01": ("writer::test_w01_w06_processes_append_while_others_verify",),
    "W02": ("writer::test_w02_threads_share_one_receipt",),
    "W03": ("writer::test_w03_parent_and_child_append_after_a_fork",),
    "W05": (
        "writer::test_w05_a_writer_dies_with_the_lock",
        "calls::test_killed_instead_of_any_call",
    ),
    "W06": ("writer::test_w01_w06_processes_append_while_others_verify",),
    "D01": (
        "writer::test_d01_every_cut_of_the_last_line_is_mended",
        "calls::test_killed_instead_of_any_call",
    ),
    "D02": ("writer::test_d02_a_feigned_crash_hides_nothing",),
    "D03": (
        "writer::test_d03_a_full_disk_seals",
        "writer::test_d03_a_file_size_limit_leaves_a_torn_line",
        "faulty::test_a_disk_that_fills_up",
        "calls::test_any_call_fails",
    ),
    "D04": (
        "writer::test_d04_a_failed_sync_ends_the_session",
        "faulty::test_a_call_of_the_broker_fails",
    ),
    "D05": (
        "writer::test_d05_a_short_write_ends_the_session",
        "faulty::test_a_file_that_cannot_grow",
        "calls::test_files_cannot_grow",
    ),
    "D11": (
        "writer::test_d11_a_terminated_session_is_sealed_as_interrupted",
        "killed::test_a_broker_that_is_asked_to_end_signs_its_seal",
    ),
    "P01": (
        "exhaustive::test_every_change_of_a_checkpoint",
        "levels::test_p01_p07_a_checkpoint_changed",
    ),
    "P02": (
        "exhaustive::test_every_change_of_a_checkpoint",
        "levels::test_p01_p07_a_checkpoint_changed",
    ),
    "P03": ("levels::test_p01_p07_a_checkpoint_changed",),
    "P04": (
        "levels::test_p04_the_attackers_own_key",
        "receipt::test_a_copy_under_another_public_key",
    ),
    "P05": ("levels::test_p05_a_signature_of_a_stranger_is_ignored",),
    "P06": ("levels::test_p01_p07_a_checkpoint_changed",),
    "P07": ("levels::test_p01_p07_a_checkpoint_changed",),
    "P09": ("keys::test_p09_wrong_paths_of_a_line",),
    "P10": ("keys::test_p10_wrong_paths_between_trees",),
    "P11": ("keys::test_p11_an_inner_node_as_a_line",),
    "P12": ("keys::test_p12_the_last_line_twice",),
    "P13": ("levels::test_p13_an_older_checkpoint_put_back",),
    "N01": ("command::test_n01_the_anchor_is_away",),
    "N02": ("command::test_n02_a_forged_cosignature",),
    "N03": ("command::test_n03_a_cosignature_of_the_future",),
    "N04": ("command::test_n04_a_token_over_another_note",),
    "N05": ("command::test_n05_an_unsound_token",),
    "N08": ("command::test_n08_n09_evidence_taken_away",),
    "N09": (
        "command::test_n08_n09_evidence_taken_away",
        "levels::test_n09_a_promise_cannot_be_taken_back",
    ),
    "X01": ("command::test_x01_x04_another_value_or_line",),
    "X02": ("command::test_x02_no_value_is_guessed",),
    "X03": ("command::test_x03_an_erased_value",),
    "X04": ("command::test_x01_x04_another_value_or_line",),
    "X05": ("command::test_x05_a_commitment_to_nothing",),
    "X07": ("command::test_x07_a_secret_in_an_argument",),
    "O01": ("exports::test_o01_the_payload_of_an_envelope",),
    "O02": (
        "exports::test_o02_the_type_of_an_envelope",
        "exports::test_o02_nothing_else_that_the_key_signs_is_a_statement",
    ),
    "O03": ("exports::test_o03_the_digest_of_another_file",),
    "O04": (
        "exports::test_o04_an_edited_cell",
        "exports::test_o04_edited_log_records",
    ),
    "O05": ("exports::test_o05_nothing_in_an_export_acts",),
    "Y01": ("writer::test_y01_constant_memory",),
    "Y02": (
        "command::test_y02_a_forged_state",
        "receipt::test_y02_a_forged_state",
    ),
    "Y03": ("receipt::test_y03_since",),
    "Y04": ("v1::test_y04_what_is_read_is_what_was_verified",),
    "Y05": ("receipt::test_y05_the_answer_carries_its_own_verdict",),
    "G01": (
        "writer::test_g01_an_append_returns_only_after_it_is_durable",
        "faulty::test_the_broker_is_killed",
    ),
    "G02": (
        "command::test_g02_the_agent_reads_the_key",
        "command::test_g02_a_shell_reads_the_key",
    ),
    "G03": ("command::test_g03_an_agent_lies_to_the_writer",),
    "G04": ("command::test_g04_an_agent_floods_the_writer",),
    "G05": ("writer::test_g05_nothing_waits_unsigned",),
    "G06": (
        "command::test_e14_e26_g06_text_that_deceives",
        "v1::test_g06_recorded_text_stays_data",
    ),
}

NOT_HERE = {
    "Y06": "time is no outcome that a test can assert; `test_y06_…` reads that both tags are "
    "compared in constant time",
}

# Where the exit code or the class is not the catalogue's.
DIFFERS = {
    "D01": "a torn end after the last acknowledged line is the state TORN and exit 0: nothing is "
    "missing, and a verifier beside a writer at work sees it too",
    "D03": "a full disk seals with the space that was held back: INTERRUPTED, not torn",
    "D04": "the receipt itself verifies: OPEN; it is the writer that refuses",
    "D05": "TORN and exit 0, as D01; it is the writer that refuses",
    "E25": "TORN and exit 0, as D01",
    "F13": "the ledger, or the mark among the keys, tells it without an anchor: `missing`, "
    "`no_ledger`",
    "F14": "TORN and exit 0, as D01",
    "G02": "a file tool is refused (exit 1); a shell is the same user's: recorded as held by "
    "nothing, or refused where enforcement is required",
    "G04": "nothing is ever dropped, since who asks waits for the line; so no line says so",
    "M02": "no instant is vouched for: only a history that was signed cannot be dated back",
    "N01": "told where anchors are handed in; `--level anchored` is what demands one",
    "P13": "a warning while the session is open, `checkpoint_old` once it is sealed",
    "R06": "`checkpoint_origin`: the signature is right, and of another chain",
    "T08": "`no_ledger` by the mark among the keys; without that too, nothing to verify: exit 2",
    "Y07": "without a key and without `--level chain` there is no verdict at all",
}

_STATES = {"SEALED", "OPEN", "TORN"}


def exit_of(answer: str) -> int:
    """Return the exit code that belongs to a state, a reason of a break, or an error's code."""
    if answer in _STATES:
        return 0
    return 2 if answer.startswith(("unverifiable.", "store.", "receipt.")) else 1


def account() -> str:
    """Return how many rows are mounted, which cannot be run, and which are answered otherwise."""
    text = [f"{len(MOUNTED)} attacks are mounted, {len(NOT_HERE)} cannot be run here:"]
    text += [f"  {name}: {why}" for name, why in sorted(NOT_HERE.items())]
    text += [f"{len(DIFFERS)} are answered otherwise than the catalogue asks:"]
    text += [f"  {name}: {why}" for name, why in sorted(DIFFERS.items())]
    return "\n".join(text)


if __name__ == "__main__":
    print(account())
