"""Which of SQLAlchemy's tests apply."""

from __future__ import annotations

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

HAS = """
    table_ddl_if_exists table_value_constructor nullsordering intersect except_ window_functions
    ctes ctes_with_values tuple_in datetime_literals datetime_timezone timestamp_microseconds
    datetime_historic datetime_timezone_historic date_historic isolation_level json_type
    legacy_unconditional_json_extract precision_numerics_enotation_small
    precision_numerics_retains_significant_digits infinity_floats aggregate_order_by update_from
    delete_from regexp_match regexp_replace supports_distinct_on
    order_by_label_with_expression supports_bitwise_or supports_bitwise_and supports_bitwise_not
    supports_bitwise_shift mod_operator_as_percent_sign boolean_col_expressions
    float_or_double_precision_behaves_generically uuid_data_type
    """
"""What a dialect is not expected to have, and this one has."""

LACKS = {
    "a table promises its key, checks and no nulls, and nothing about other tables": """
        on_update_cascade self_referential_foreign_keys
        recursive_fk_cascade foreign_key_constraint_reflection unique_constraint_reflection
        named_constraints implicitly_named_constraints""",
    "blocks have statistics in the place of indexes": """
        index_reflection indexes_with_ascdesc reflect_indexes_with_ascdesc""",
    "a table belongs to a lake, and not to a connection": """
        temp_table_reflection temporary_tables""",
    "no writer waits for another one, so no number is given out": """
        autoincrement_insert implements_get_lastrowid autoincrement_without_sequence""",
    "the driver streams every result, and no cursor is of another kind": "server_side_cursors",
}
"""What every dialect is expected to have, and this one has not; by the reason."""


NOT = {
    "a name of a table has letters of ASCII, digits, _, - and .": "QuotedNameArgumentTest.*",
    "all names are quoted": """
        PostCompileParamsTest.test_compile PostCompileParamsTest.test_compile_literal_binds
        PostCompileParamsTest.test_execute
        PostCompileParamsTest.test_execute_expanding_plus_literal_execute
        PostCompileParamsTest.test_execute_tuple_expanding_plus_literal_execute
        PostCompileParamsTest.test_execute_tuple_expanding_plus_literal_heterogeneous_execute""",
    "no number is given out": """
        InsertBehaviorTest.test_insert_from_select_autoinc
        InsertBehaviorTest.test_insert_from_select_autoinc_no_rows
        ComponentReflectionTest.test_autoincrement_col""",
    "there are no views": "ComponentReflectionTest.test_get_view_names",
    "VARCHAR(52) is VARCHAR": "ComponentReflectionTestExtra.test_string_length_reflection",
    "a quotient of decimals is a double": """
        TrueDivTest.test_truediv_numeric TrueDivTest.test_truediv_divisor""",
    "a request is one version, and CREATE TABLE AS is two": "TableViaSelectTest.*",
    "there are no indexes": "LongNameBlowoutTest.*",
}
"""Tests that have no requirement, by the reason why they do not apply."""


class Requirements(SuiteRequirements):
    """Those of this dialect."""


def _set(name: str, has: bool) -> None:
    assert isinstance(getattr(SuiteRequirements, name), property), name
    made = exclusions.open if has else exclusions.closed
    setattr(Requirements, name, property(lambda self: made()))


for _name in HAS.split():
    _set(_name, True)
for _names in LACKS.values():
    for _name in _names.split():
        _set(_name, False)
