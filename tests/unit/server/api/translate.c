/* Translations: what becomes one message, what another, and that values arrive as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/api/translate.h"

static const char *const text_type[] = {"text", NULL};

static struct json_t *parse(const char *text)
{
    struct json_t *doc = NULL;
    assert_int_equal(tr_json_parse(&doc, text, strlen(text), NULL), 0);
    return doc;
}

static void assert_json(const json_t *v, const char *want)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void test_an_assistants_turn_is_one_message(void **state)
{
    (void)state;
    struct json_t *doc = parse("{\"i\":\"1\",\"name\":\"f\",\"a\":\"{}\",\"t\":\"hm\\u0000\","
                               "\"r\":\"r\"}");
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json thought = tr_json_get(&root, "t");
    struct srv_translation t = {0};
    srv_translate_message(&t, "user", json_string("u"));
    srv_translate_thought(&t, &thought);
    srv_translate_thought(&t, &thought);
    srv_translate_said(&t, json_string("c"));
    assert_int_equal(srv_translate_use(&t, &root, "i", "a", TR_JSON_STRING, NULL), 0);
    assert_int_equal(srv_translate_use(&t, &root, "i", "a", TR_JSON_STRING, NULL), 0);
    srv_translate_said(&t, json_string("d")); /* behind a call: another message */
    assert_int_equal(srv_translate_tool_result(&t, &root, "i", "r", NULL, NULL), 0);
    assert_int_equal(srv_translate_use(&t, &root, "i", "a", TR_JSON_STRING, NULL), 0);
    struct srv_dialog d = {0};
    assert_int_equal(srv_translation_use(&t, &d, NULL), 0);
    assert_ptr_equal(d.messages.node, t.messages);
    assert_json(
        t.messages,
        "[{\"role\":\"user\",\"content\":\"u\"},"
        "{\"role\":\"assistant\",\"reasoning_content\":\"hm\\u0000hm\\u0000\",\"content\":\"c\","
        "\"tool_calls\":["
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"assistant\",\"content\":\"d\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\","
        "\"content\":[{\"type\":\"text\",\"text\":\"r\"}]},"
        "{\"role\":\"assistant\",\"tool_calls\":["
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}"
        "]");
    srv_translation_done(&t);
    tr_json_free(doc);
}

static void test_parts(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"\"a\"", "[{\"type\":\"text\",\"text\":\"a\"}]"},
        {"[{\"type\":\"text\",\"text\":\"a\",\"more\":1},{\"type\":\"text\",\"text\":\"\"}]",
         "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"}]"},
        {"[]", "[]"},
        {"null", "[]"}};
    static const char *const bad[] = {"5",
                                      "{}",
                                      "[5]",
                                      "[{\"type\":\"image\",\"text\":\"a\"}]",
                                      "[{\"type\":\"text\"}]",
                                      "[{\"text\":\"a\"}]"};
    for (size_t i = 0; i < TR_ARRAY_LEN(good); i++) {
        struct json_t *doc = parse(good[i][0]), *parts = NULL;
        struct tr_json v = tr_json_root(doc, NULL);
        assert_int_equal(srv_translate_parts(&v, text_type, &parts, NULL), 0);
        assert_json(parts, good[i][1]);
        json_decref(parts);
        tr_json_free(doc);
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(bad); i++) {
        struct json_t *doc = parse(bad[i]), *parts = NULL;
        struct tr_json v = tr_json_root(doc, NULL);
        assert_int_equal(srv_translate_parts(&v, text_type, &parts, NULL), TR_EINVAL);
        assert_null(parts);
        tr_json_free(doc);
    }
}

static void test_tools_and_variables(void **state)
{
    (void)state;
    struct json_t *doc = parse("{\"n\":\"f\",\"p\":{\"type\":\"object\"},\"k\":{\"a\":1}}");
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json name = tr_json_get(&root, "n"), parameters = tr_json_get(&root, "p");
    struct tr_json kwargs = tr_json_get(&root, "k");
    struct srv_translation t = {0};
    struct srv_dialog d = {0};
    srv_translate_tool(&t, &root, &name, &parameters);
    srv_translate_kwarg(&t, &kwargs, "enable_thinking", false);
    assert_int_equal(srv_translation_use(&t, &d, NULL), 0);
    assert_json(d.tools.node, "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                              "\"parameters\":{\"type\":\"object\"}}}]");
    assert_json(d.kwargs.node, "{\"a\":1,\"enable_thinking\":false}");
    assert_json(kwargs.node, "{\"a\":1}"); /* the request stays as it came */
    assert_null(d.messages.node);
    srv_translation_done(&t);
    tr_json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_assistants_turn_is_one_message),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_tools_and_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
