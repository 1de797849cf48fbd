/*
 * For tests in other languages: tokenize DIR VOCAB_SIZE FLAGS reads a JSON string a line and answers
 * with a line {"ids":[...],"decoded":"..."}, or null if the text is refused. FLAGS is the number of
 * enum tr_encode_flags.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/buf.h"
#include "config/json.h"
#include "engine/text/detokenizer.h"

static int answer(const struct tr_tokenizer *t, unsigned flags, const char *line, size_t n,
                  struct tr_buf *out)
{
    struct tr_buf text = {0};
    struct tr_detok d = {0};
    struct tr_ids ids = {0};
    struct json_t *doc = NULL;
    struct tr_err err = {0};
    struct tr_json v;
    const char *s;
    int code = tr_json_parse(&doc, line, n, &err);

    v = tr_json_root(doc, NULL);
    if (code || (code = tr_json_as_string(&v, &s, &n, &err))) {
        fprintf(stderr, "%s\n", err.msg);
        return code;
    }
    if (tr_tokenizer_encode(t, s, n, flags, 0, &ids)) {
        tr_buf_adds(out, "null\n");
    } else {
        tr_buf_adds(out, "{\"ids\":[");
        for (size_t i = 0; i < ids.n; i++) {
            tr_buf_addf(out, i > 0 ? ",%d" : "%d", ids.ids[i]);
            tr_detok_token(&d, t, ids.ids[i], false, &text);
        }
        tr_detok_end(&d, false, &text);
        tr_buf_adds(out, "],\"decoded\":");
        tr_json_quote(out, text.len > 0 ? text.data : "", text.len);
        tr_buf_adds(out, "}\n");
    }
    free(ids.ids);
    tr_buf_done(&text);
    tr_json_free(doc);
    return out->oom ? TR_ENOMEM : TR_OK;
}

int main(int argc, char **argv)
{
    struct tr_tokenizer *t = NULL;
    struct tr_buf out = {0};
    struct tr_err err = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int code = 0;

    if (argc != 4) {
        fprintf(stderr, "usage: %s DIR VOCAB_SIZE FLAGS\n", argv[0]);
        return 2;
    }
    if (tr_tokenizer_load(&t, argv[1], atoi(argv[2]), &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    while (!code && (n = getline(&line, &cap, stdin)) > 0) {
        tr_buf_clear(&out);
        code = answer(t, (unsigned)atoi(argv[3]), line, (size_t)n, &out);
        fwrite(out.data, 1, out.len, stdout);
    }
    free(line);
    tr_buf_done(&out);
    tr_tokenizer_free(t);
    return code ? 1 : 0;
}
