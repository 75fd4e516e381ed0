SELECT current_setting('server_version_num')::int / 100 AS version
-- next
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'
-- next
SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1
-- next
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) = 'public' ORDER BY 1
-- next
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(p[k]) = '"$user"' THEN user ELSE trim(p[k]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS k, string_to_array(current_setting('search_path'), ',') p) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1
-- next
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('people'), 1) = 2 THEN quote_ident(table_schema) = (parse_ident('people'))[1] AND quote_ident(table_name) = (parse_ident('people'))[2] ELSE quote_ident(table_name) = 'people' AND quote_ident(table_schema) IN (SELECT trim(p[k]) FROM generate_series(1, array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS k, string_to_array(current_setting('search_path'), ',') p) END
