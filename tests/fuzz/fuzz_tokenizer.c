/*
 * A tokenizer and a text. Input that begins with { is a tokenizer.json, a NUL and the text; other input is a text for
 * the demo checkpoint's tokenizer, and what it becomes must be the text again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/detokenizer.h"
#include "engine/text/stops.h"
#include "engine/text/tokenizer_internal.h"
#include "engine/text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VOCAB_SIZE 512

/* The ids as text again. */
static void decode(const struct tr_tokenizer *t, const struct tr_ids *ids, struct tr_buf *out)
{
    struct tr_detok d = {0};

    for (size_t i = 0; i < ids->n; i++) {
        size_t before = d.n_chars, place = tr_detok_token(&d, t, ids->ids[i], false, out);

        assert(tr_tokenizer_has_id(t, ids->ids[i]));
        assert(place >= before && place <= d.n_chars);
    }
    tr_detok_end(&d, false, out);
    assert(tr_utf8_valid(out->data ? out->data : "", out->len));
}

static void encode(const struct tr_tokenizer *t, const char *text, size_t n, bool same)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        struct tr_ids ids = {0}, few = {0};
        struct tr_buf again = {0};
        int code = tr_tokenizer_encode(t, text, n, flags, 0, &ids);

        assert((code == TR_EINVAL) == !tr_utf8_valid(text, n));
        if (code == TR_OK) {
            decode(t, &ids, &again);
            assert(!same || (again.len == n && (n == 0 || memcmp(again.data, text, n) == 0)));
            code = tr_tokenizer_encode(t, text, n, flags, 3, &few);
            assert(code == (ids.n > 3 ? TR_ETOOLONG : TR_OK));
            assert(few.n == (ids.n > 3 ? 0 : ids.n));
        }
        free(ids.ids);
        free(few.ids);
        tr_buf_done(&again);
    }
}

/* The bytes in one piece and one by one give the same text; so do the characters of the text to a scan for a stop
 * string that is the text's own middle. */
static void stream(const char *bytes, size_t n)
{
    struct tr_buf whole = {0}, parts = {0}, cut = {0};
    struct tr_detok d = {0};
    struct tr_stop_scan scan;
    struct tr_stops *set;
    const char *string;
    size_t length;

    struct tr_detok at_once = {0};
    tr_detok_bytes(&at_once, bytes, n, &whole);
    tr_detok_end(&at_once, false, &whole);
    for (size_t i = 0; i < n; i++)
        tr_detok_bytes(&d, bytes + i, 1, &parts);
    tr_detok_end(&d, false, &parts);
    assert(whole.len == parts.len &&
           (whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0));
    if (whole.len >= 3) {
        string = whole.data + whole.len / 3;
        length = (whole.len + 2) / 3;
        assert(tr_stops_new(&set, &string, &length, 1, false) == 0 &&
               tr_stop_scan_init(&scan, set) == 0);
        for (size_t i = 0; i < whole.len; i++)
            tr_stop_scan_add(&scan, whole.data + i, 1, &cut);
        assert(scan.stop == 0 && cut.len <= whole.len / 3);
        assert(memmem(whole.data, whole.len, string, length) == whole.data + cut.len);
        tr_stop_scan_done(&scan);
        tr_stops_free(set);
    }
    tr_buf_done(&whole);
    tr_buf_done(&parts);
    tr_buf_done(&cut);
}

static void fuzz_json(const char *data, size_t size)
{
    const char *end = memchr(data, '\0', size);
    size_t n = end ? (size_t)(end - data) : size;
    struct tr_tokenizer_files files = {0};
    struct tr_tokenizer *t = NULL;
    struct json_t *doc = NULL;
    struct tr_err err = {0};

    if (tr_json_parse(&doc, data, n, &err) != 0)
        return;
    files.tokenizer = tr_json_root(doc, "tokenizer.json");
    if (tr_tokenizer_from_json(&t, &files, VOCAB_SIZE, &err) == 0)
        encode(t, end ? end + 1 : "a b", end ? size - n - 1 : 3, false);
    else
        assert(err.msg[0] != '\0');
    tr_tokenizer_free(t);
    tr_json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tr_tokenizer *demo;
    struct tr_err err;

    if (!demo)
        assert(tr_tokenizer_load(&demo, "config/demo", 1024, &err) == 0);
    if (size > 0 && data[0] == '{') {
        fuzz_json((const char *)data, size);
    } else {
        encode(demo, (const char *)data, size, true);
        stream((const char *)data, size);
    }
    return 0;
}
