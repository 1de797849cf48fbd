/* JSON of any kind: parse it, walk it to the leaves, and quote every string again. */
#include <assert.h>

#include "config/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct tr_json *v, struct tr_buf *out)
{
    struct tr_err err;
    const char *text;
    size_t n;
    int64_t i;
    double d;

    switch (tr_json_type(v)) {
    case TR_JSON_STRING:
        if (tr_json_as_string(v, &text, &n, &err) == 0)
            tr_json_quote(out, text, n);
        break;
    case TR_JSON_NUMBER:
        if (tr_json_as_int(v, INT64_MIN, INT64_MAX, &i, &err) == 0)
            tr_buf_addf(out, "%lld", (long long)i);
        if (tr_json_as_double(v, -1e300, 1e300, &d, &err) != 0)
            assert(err.msg[0] != '\0');
        break;
    case TR_JSON_ARRAY:
        for (size_t at = 0; at < tr_json_size(v); at++) {
            struct tr_json element = tr_json_at(v, at);
            walk(&element, out);
        }
        break;
    case TR_JSON_OBJECT: {
        struct tr_json member;
        void *iter = NULL;

        while (tr_json_next(v, &iter, &member))
            walk(&member, out);
        break;
    }
    default:
        assert(tr_json_as_bool(v, &(bool){false}, &err) == 0 || err.msg[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_t *doc = NULL;
    struct tr_buf out = {0};
    struct tr_err err = {0};

    if (tr_json_parse(&doc, data, size, &err) == 0) {
        struct tr_json root = tr_json_root(doc, NULL);
        walk(&root, &out);
    } else {
        assert(doc == NULL && err.msg[0] != '\0');
    }
    tr_json_free(doc);
    tr_buf_done(&out);
    return 0;
}
