#include "tests/unit/text/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/json.h"

struct rows read_rows(const char *file)
{
    struct tr_err err = {0};
    struct rows ret = {0};
    struct tr_json root;

    if (tr_json_read(&ret.doc, file, 1 << 24, &err))
        fail_msg("%s", err.msg);
    root = tr_json_root(ret.doc, file);
    ret.n = tr_json_size(&root);
    ret.rows = calloc(ret.n, sizeof(*ret.rows));
    assert_non_null(ret.rows);
    for (size_t i = 0; i < ret.n; i++) {
        struct tr_json row = tr_json_at(&root, i), ids = tr_json_get(&row, "ids");
        struct row *r = &ret.rows[i];

        assert_int_equal(tr_json_string(&row, "text", &r->text, &r->n_text, &err), TR_OK);
        assert_int_equal(tr_json_string(&row, "decoded", &r->decoded, &r->n_decoded, &err), TR_OK);
        r->n_ids = tr_json_size(&ids);
        r->ids = calloc(r->n_ids + 1, sizeof(*r->ids));
        assert_non_null(r->ids);
        for (size_t j = 0; j < r->n_ids; j++) {
            struct tr_json id = tr_json_at(&ids, j);
            int64_t value;

            assert_int_equal(tr_json_as_int(&id, 0, INT32_MAX, &value, &err), TR_OK);
            r->ids[j] = (int32_t)value;
        }
    }
    return ret;
}

void free_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        free(rows->rows[i].ids);
    free(rows->rows);
    tr_json_free(rows->doc);
}
