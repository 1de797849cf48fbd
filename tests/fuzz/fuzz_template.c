/* A chat template and its variables: the source up to the first NUL, behind it JSON, an object of variables or a list of
 * messages. What renders must be UTF-8 with data ranges in order. */
#include <assert.h>
#include <string.h>

#include "engine/text/template/template.h"
#include "engine/text/template/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tr_rendered *r)
{
    size_t end = 0, bad;
    assert(tr_uni_valid(r->text, r->n, &bad) && r->text[r->n] == '\0');
    for (size_t i = 0; i < r->n_data; i++) {
        assert(r->data[i].begin < r->data[i].end && (i == 0 || r->data[i].begin > end));
        end = r->data[i].end;
    }
    assert(end <= r->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char fallback[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a "
                                   "b\\n\"}], \"x\": 1, \"l\": [1, \"a\"]}";
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    struct tr_template *t = NULL;
    struct tr_rendered out = {0};
    struct tr_err err = {0};
    struct json_t *doc = NULL;

    if (tr_template_load(&t, size ? (const char *)data : "", n, &err) < 0) {
        assert(err.msg[0]);
        return 0;
    }
    if (!nul || tr_json_parse(&doc, nul + 1, size - n - 1, NULL) < 0)
        assert(tr_json_parse(&doc, fallback, sizeof fallback - 1, NULL) == 0);
    struct tr_json root = tr_json_root(doc, NULL);
    bool list = tr_json_type(&root) == TR_JSON_ARRAY;
    struct tr_template_input in = {.messages = list ? &root : NULL,
                                   .variables = list ? NULL : &root,
                                   .add_generation_prompt = size % 2,
                                   .continue_final_message = size % 3 == 0,
                                   .bos_token = "<s>",
                                   .now = 1767323045};
    if (tr_template_render(t, &in, &out, &err) == 0)
        check(&out);
    else
        assert(err.msg[0]);
    tr_rendered_done(&out);
    tr_json_free(doc);
    tr_template_free(t);
    return 0;
}
