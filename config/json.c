#include "config/json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/cancel.h"
#include "config/json_scan.h"

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY)

static pthread_once_t mark_once = PTHREAD_ONCE_INIT;

/* A big integer is kept as a string that begins with this; nobody outside can write it. */
enum { MARK_BYTES = 1 + 24, LONG_TEXT = 1 << 20 };
static char mark[MARK_BYTES + 1] = "\001";

static void make_mark(void)
{
    unsigned char random[MARK_BYTES - 1];
    json_object_seed(0);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        memset(random, 0, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        mark[i + 1] = (char)('a' + random[i] % 16);
}

/* The digits of a big integer with their sign; NULL if the node is none. */
static const char *big_digits(const struct json_t *node)
{
    const char *s = json_string_value(node);
    return s && s[0] == mark[0] && strncmp(s, mark, MARK_BYTES) == 0 ? s + MARK_BYTES : NULL;
}

struct text {
    const char *at;
    size_t left;
};

static size_t read_piece(void *to, size_t n, void *arg)
{
    struct text *r = arg;
    if (tr_cancel_asked())
        return (size_t)-1;
    n = TR_MIN(n, r->left);
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
    return n;
}

/* The document of a long text takes long: it can be called off. */
static struct json_t *load(const char *bytes, size_t n, json_error_t *ret)
{
    struct text r = {bytes, n};
    return n > LONG_TEXT ? json_load_callback(read_piece, &r, PARSE_FLAGS, ret)
                         : json_loadb(bytes, n, PARSE_FLAGS, ret);
}

/* file is NULL for bytes that came from elsewhere, which are given little memory. */
static int parse(struct json_t **ret, const char *bytes, size_t n, const char *file,
                 struct tr_err *err)
{
    int code = file ? TR_EFORMAT : TR_EINVAL;
    const char *sep = file ? ": " : "";
    bool bounded = !file;
    if (!file)
        file = "";
    struct tr_json_scan scan = tr_json_scan(bytes, n, TR_JSON_MAX_DEPTH);
    if (scan.too_deep_at < n)
        return tr_err_set(err, code, NULL, "%s%sinvalid JSON: nested deeper than %d at byte %zu",
                          file, sep, TR_JSON_MAX_DEPTH, scan.too_deep_at);
    if (bounded && scan.bytes > TR_MIN(n * TR_JSON_FACTOR + TR_JSON_FREE, TR_JSON_MAX_BYTES))
        return tr_err_set(err, code, NULL, "too many values: %zu bytes of JSON would take %zu MiB",
                          n, scan.bytes >> 20);
    pthread_once(&mark_once, make_mark);
    struct tr_buf wide = {0};
    if (scan.big)
        tr_json_widen(&wide, bytes, n, mark + 1);
    if (wide.oom) {
        tr_buf_done(&wide);
        return tr_err_set(err, TR_ENOMEM, NULL, "%s%sout of memory", file, sep);
    }
    json_error_t e;
    struct json_t *doc = load(scan.big ? wide.data : bytes, scan.big ? wide.len : n, &e);
    tr_buf_done(&wide);
    if (!doc && tr_cancel_asked())
        return tr_err_set(err, TR_ECANCELED, NULL, "%s%scanceled", file, sep);
    if (!doc) {
        if (json_error_code(&e) == json_error_out_of_memory)
            return tr_err_set(err, TR_ENOMEM, NULL, "%s%sout of memory", file, sep);
        /* jansson quotes the input after " near '": that part is not ours to repeat. */
        char *near = strstr(e.text, " near '");
        if (near)
            *near = '\0';
        return tr_err_set(err, code, NULL, "%s%sinvalid JSON at line %d, column %d (byte %d): %s",
                          file, sep, e.line, e.column, e.position, e.text);
    }
    *ret = doc;
    return 0;
}

int tr_json_parse(struct json_t **ret, const void *bytes, size_t n, struct tr_err *err)
{
    return parse(ret, bytes, n, NULL, err);
}

static int read_fd(int fd, const char *file, size_t max_bytes, struct tr_buf *b, struct tr_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return tr_err_set(err, TR_EIO, NULL, "%s: %s", file, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return tr_err_set(err, TR_EIO, NULL, "%s: not a regular file", file);
    /* One byte more than the file holds, so that the end is seen without growing. */
    size_t room = 1 + (st.st_size > 0 ? TR_MIN((size_t)st.st_size, max_bytes) : 4096);
    for (;;) {
        char *p = tr_buf_reserve(b, room);
        if (!p)
            return tr_err_set(err, TR_ENOMEM, NULL, "%s: out of memory", file);
        ssize_t got = read(fd, p, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tr_err_set(err, TR_EIO, NULL, "%s: %s", file, strerror(errno));
        if (got == 0)
            return 0;
        b->len += (size_t)got;
        if (b->len > max_bytes)
            return tr_err_set(err, TR_EFORMAT, NULL, "%s: larger than %zu bytes", file, max_bytes);
        room = 4096;
    }
}

int tr_json_read(struct json_t **ret, const char *file, size_t max_bytes, struct tr_err *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tr_err_set(err, TR_EIO, NULL, "%s: %s", file, strerror(errno));
    struct tr_buf b = {0};
    int r = read_fd(fd, file, max_bytes, &b, err);
    close(fd);
    size_t skip = b.len >= 3 && memcmp(b.data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    if (r == 0)
        r = parse(ret, b.data + skip, b.len - skip, file, err);
    tr_buf_done(&b);
    return r;
}

struct json_t *tr_json_free(struct json_t *doc)
{
    json_decref(doc);
    return NULL;
}

struct tr_json tr_json_root(struct json_t *doc, const char *file)
{
    return (struct tr_json){.node = doc, .key = file, .key_bytes = file ? strlen(file) : 0};
}

struct tr_json tr_json_get(const struct tr_json *object, const char *key)
{
    size_t n = strlen(key);
    return (struct tr_json){
        .node = json_object_getn(object->node, key, n), .up = object, .key = key, .key_bytes = n};
}

struct tr_json tr_json_at(const struct tr_json *array, size_t i)
{
    return (struct tr_json){.node = json_array_get(array->node, i), .up = array, .index = i};
}

bool tr_json_next(const struct tr_json *object, void **iter, struct tr_json *ret)
{
    *iter = *iter ? json_object_iter_next(object->node, *iter) : json_object_iter(object->node);
    if (!*iter)
        return false;
    *ret = (struct tr_json){.node = json_object_iter_value(*iter),
                            .up = object,
                            .key = json_object_iter_key(*iter),
                            .key_bytes = json_object_iter_key_len(*iter)};
    return true;
}

enum tr_json_type tr_json_type(const struct tr_json *v)
{
    if (!v->node)
        return TR_JSON_ABSENT;
    switch (json_typeof(v->node)) {
    case JSON_OBJECT:
        return TR_JSON_OBJECT;
    case JSON_ARRAY:
        return TR_JSON_ARRAY;
    case JSON_STRING:
        return big_digits(v->node) ? TR_JSON_NUMBER : TR_JSON_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return TR_JSON_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return TR_JSON_BOOL;
    case JSON_NULL:
    default:
        return TR_JSON_NULL;
    }
}

bool tr_json_given(const struct tr_json *v)
{
    return v->node && !json_is_null(v->node);
}

bool tr_json_is_integer(const struct tr_json *v)
{
    return json_is_integer(v->node) || big_digits(v->node);
}

const char *tr_json_big(const struct tr_json *v)
{
    return big_digits(v->node);
}

size_t tr_json_size(const struct tr_json *v)
{
    return json_is_array(v->node) ? json_array_size(v->node) : json_object_size(v->node);
}

/* Appends "a.b[3]"; keys can be anything, so only printable ASCII of them passes. */
static void add_path(struct tr_buf *b, const struct tr_json *v)
{
    if (!v->up)
        return;
    add_path(b, v->up);
    if (!v->key) {
        tr_buf_addf(b, "[%zu]", v->index);
        return;
    }
    if (b->len)
        tr_buf_addc(b, '.');
    for (size_t i = 0; i < TR_MIN(v->key_bytes, 64); i++)
        tr_buf_addc(b, v->key[i] >= 0x20 && v->key[i] < 0x7f ? v->key[i] : '?');
}

static const struct tr_json *root_of(const struct tr_json *v)
{
    while (v->up)
        v = v->up;
    return v;
}

int tr_json_fail(const struct tr_json *v, struct tr_err *err, const char *fmt, ...)
{
    const char *file = root_of(v)->key;
    int code = file ? TR_EFORMAT : TR_EINVAL;
    char msg[384];
    va_list ap;
    if (!err)
        return code;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    struct tr_buf text = {0}, path = {0};
    if (file)
        tr_buf_addf(&text, "%s: ", file);
    add_path(&path, v);
    if (path.len)
        tr_buf_addf(&text, "%s: ", path.data);
    tr_buf_adds(&text, msg);
    if (path.oom || text.oom)
        code = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    else
        tr_err_set(err, code, path.data, "%s", text.data);
    tr_buf_done(&path);
    tr_buf_done(&text);
    return code;
}

static const char *const type_names[] = {
    [TR_JSON_ABSENT] = "nothing", [TR_JSON_NULL] = "null",     [TR_JSON_BOOL] = "boolean",
    [TR_JSON_NUMBER] = "number",  [TR_JSON_STRING] = "string", [TR_JSON_ARRAY] = "array",
    [TR_JSON_OBJECT] = "object"};

static int wrong_type(const struct tr_json *v, const char *want, struct tr_err *err)
{
    if (!v->node)
        return tr_json_fail(v, err, "missing (expected %s)", want);
    return tr_json_fail(v, err, "expected %s, found %s", want, type_names[tr_json_type(v)]);
}

int tr_json_expect(const struct tr_json *v, enum tr_json_type type, struct tr_err *err)
{
    return tr_json_type(v) == type ? 0 : wrong_type(v, type_names[type], err);
}

int tr_json_as_int(const struct tr_json *v, int64_t min, int64_t max, int64_t *ret,
                   struct tr_err *err)
{
    int64_t x;
    if (json_is_integer(v->node)) {
        x = json_integer_value(v->node);
    } else if (json_is_real(v->node)) {
        double d = json_real_value(v->node);
        if (d != floor(d))
            return tr_json_fail(v, err, "expected integer, found a fraction");
        /* A cast is defined only inside these bounds. */
        if (d < -0x1p63 || d >= 0x1p63)
            return tr_json_fail(v, err, "must be from %lld to %lld", (long long)min,
                                (long long)max);
        x = (int64_t)d;
    } else if (big_digits(v->node)) {
        return tr_json_fail(v, err, "must be from %lld to %lld", (long long)min, (long long)max);
    } else {
        return wrong_type(v, "integer", err);
    }
    if (x < min || x > max)
        return tr_json_fail(v, err, "must be from %lld to %lld", (long long)min, (long long)max);
    *ret = x;
    return 0;
}

int tr_json_as_word(const struct tr_json *v, uint64_t *ret, struct tr_err *err)
{
    const char *digits = big_digits(v->node);
    int64_t x = 0;
    if (!digits) {
        int r = tr_json_as_int(v, INT64_MIN, INT64_MAX, &x, err);
        if (r == 0)
            *ret = (uint64_t)x;
        return r;
    }
    errno = 0;
    uint64_t word = strtoull(digits, NULL, 10);
    if (digits[0] == '-' || errno == ERANGE)
        return tr_json_fail(v, err, "must be an integer of 64 bits, signed or not");
    *ret = word;
    return 0;
}

int tr_json_as_double(const struct tr_json *v, double min, double max, double *ret,
                      struct tr_err *err)
{
    const char *digits = big_digits(v->node);
    if (!json_is_number(v->node) && !digits)
        return wrong_type(v, "number", err);
    double d = digits ? strtod(digits, NULL) : json_number_value(v->node);
    if (!(d >= min && d <= max))
        return tr_json_fail(v, err, "must be from %g to %g", min, max);
    *ret = d;
    return 0;
}

int tr_json_as_bool(const struct tr_json *v, bool *ret, struct tr_err *err)
{
    if (!json_is_boolean(v->node))
        return wrong_type(v, "boolean", err);
    *ret = json_is_true(v->node);
    return 0;
}

int tr_json_as_string(const struct tr_json *v, const char **ret, size_t *ret_n, struct tr_err *err)
{
    if (!json_is_string(v->node) || big_digits(v->node))
        return wrong_type(v, "string", err);
    const char *s = json_string_value(v->node);
    size_t n = json_string_length(v->node);
    if (ret_n)
        *ret_n = n;
    else if (memchr(s, '\0', n))
        return tr_json_fail(v, err, "must not hold a NUL character");
    *ret = s;
    return 0;
}

int tr_json_int(const struct tr_json *object, const char *key, int64_t min, int64_t max,
                int64_t *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_as_int(&v, min, max, ret, err);
}

int tr_json_double(const struct tr_json *object, const char *key, double min, double max,
                   double *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_as_double(&v, min, max, ret, err);
}

int tr_json_bool(const struct tr_json *object, const char *key, bool *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_as_bool(&v, ret, err);
}

int tr_json_string(const struct tr_json *object, const char *key, const char **ret, size_t *ret_n,
                   struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_as_string(&v, ret, ret_n, err);
}

static int member(const struct tr_json *object, const char *key, enum tr_json_type type,
                  struct tr_json *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    int r = tr_json_expect(&v, type, err);
    if (r == 0)
        *ret = v;
    return r;
}

int tr_json_array(const struct tr_json *object, const char *key, struct tr_json *ret,
                  struct tr_err *err)
{
    return member(object, key, TR_JSON_ARRAY, ret, err);
}

int tr_json_object(const struct tr_json *object, const char *key, struct tr_json *ret,
                   struct tr_err *err)
{
    return member(object, key, TR_JSON_OBJECT, ret, err);
}

int tr_json_opt_int(const struct tr_json *object, const char *key, int64_t min, int64_t max,
                    int64_t *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_given(&v) ? tr_json_as_int(&v, min, max, ret, err) : 0;
}

int tr_json_opt_double(const struct tr_json *object, const char *key, double min, double max,
                       double *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_given(&v) ? tr_json_as_double(&v, min, max, ret, err) : 0;
}

int tr_json_opt_bool(const struct tr_json *object, const char *key, bool *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_given(&v) ? tr_json_as_bool(&v, ret, err) : 0;
}

int tr_json_opt_string(const struct tr_json *object, const char *key, const char **ret,
                       size_t *ret_n, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    return tr_json_given(&v) ? tr_json_as_string(&v, ret, ret_n, err) : 0;
}

static int opt_member(const struct tr_json *object, const char *key, enum tr_json_type type,
                      struct tr_json *ret, struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    if (tr_json_given(&v))
        return member(object, key, type, ret, err);
    v.node = NULL;
    *ret = v;
    return 0;
}

int tr_json_opt_array(const struct tr_json *object, const char *key, struct tr_json *ret,
                      struct tr_err *err)
{
    return opt_member(object, key, TR_JSON_ARRAY, ret, err);
}

int tr_json_opt_object(const struct tr_json *object, const char *key, struct tr_json *ret,
                       struct tr_err *err)
{
    return opt_member(object, key, TR_JSON_OBJECT, ret, err);
}

/* Bytes of the UTF-8 character at s (n >= 1 bytes left), 0 if there is none. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (len == 0 || s[0] > 0xF4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

void tr_json_quote(struct tr_buf *b, const char *s, size_t n)
{
    tr_buf_addc(b, '"');
    size_t done = 0; /* everything before is written */
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = utf8_length((const unsigned char *)s + i, n - i);
        if (len > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += len;
            continue;
        }
        tr_buf_add(b, s + done, i - done);
        if (len == 0)
            tr_buf_adds(b, "\xEF\xBF\xBD");
        else if (c == '"' || c == '\\')
            tr_buf_addf(b, "\\%c", c);
        else if (c == '\n')
            tr_buf_adds(b, "\\n");
        else
            tr_buf_addf(b, "\\u%04x", c);
        done = ++i;
    }
    tr_buf_add(b, s + done, n - done);
    tr_buf_addc(b, '"');
}

/* The fewest digits that read back as d. */
static void add_real(struct tr_buf *b, double d)
{
    char text[40];
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", digits++, d);
    while (digits <= 17 && strtod(text, NULL) != d);
    tr_buf_adds(b, text);
    if (!strpbrk(text, ".e"))
        tr_buf_adds(b, ".0");
}

void tr_json_write(struct tr_buf *b, const struct tr_json *v)
{
    const char *big = big_digits(v->node);
    struct tr_json item;
    void *iter = NULL;
    size_t n = tr_json_size(v);
    if (big) {
        tr_buf_adds(b, big);
    } else if (json_is_string(v->node)) {
        tr_json_quote(b, json_string_value(v->node), json_string_length(v->node));
    } else if (json_is_integer(v->node)) {
        tr_buf_addf(b, "%lld", (long long)json_integer_value(v->node));
    } else if (json_is_real(v->node)) {
        add_real(b, json_real_value(v->node));
    } else if (json_is_array(v->node)) {
        tr_buf_addc(b, '[');
        for (size_t i = 0; i < n; i++) {
            item = tr_json_at(v, i);
            tr_buf_adds(b, i ? "," : "");
            tr_json_write(b, &item);
        }
        tr_buf_addc(b, ']');
    } else if (json_is_object(v->node)) {
        tr_buf_addc(b, '{');
        for (const char *sep = ""; tr_json_next(v, &iter, &item); sep = ",") {
            tr_buf_adds(b, sep);
            tr_json_quote(b, item.key, item.key_bytes);
            tr_buf_addc(b, ':');
            tr_json_write(b, &item);
        }
        tr_buf_addc(b, '}');
    } else {
        tr_buf_adds(b, json_is_true(v->node) ? "true" : json_is_false(v->node) ? "false" : "null");
    }
}
