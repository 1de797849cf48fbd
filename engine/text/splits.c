/*
 * Scanners for the five expressions of the Trinity pre-tokenizer. The alternatives of the last one
 * are tried in its order; each comment gives the part that the code below stands for.
 */
#include "engine/text/splits.h"

#include "engine/text/unicode.h"

/* Digit runs are cut into chunks of this size, counted from the right, before they are cut in
 * threes. */
enum { CHUNK = 510 };

#define CHUNKS      "\\p{Nd}{1,510}(?=(?>\\p{Nd}{510})*(?:\\P{Nd}|$))|\\G\\p{Nd}{510}"
#define FIRST_GROUP "\\A\\p{Nd}{1,2}(?=\\p{Nd}{3}+\\z)"
#define GROUPS      "\\A\\p{Nd}{3}|\\G\\p{Nd}{3}"
#define SCRIPTS                                                                                    \
    "(?:[\\u4E00-\\u9FFF\\u3040-\\u309F\\u30A0-\\u30FF\\u3400-\\u4DBF\\uf900-\\uFAFF"              \
    "\\uFF65-\\uFF9F\\u2F00-\\u2FDF]+|[\\u0E00-\\u0E7F]+|[\\u0E80-\\u0EFF]+|[\\u1780-\\u17FF]+"    \
    "|[\\u1000-\\u109F\\uAA60-\\uAA7F\\uA9E0-\\uA9FF]+|[\\uAC00-\\uD7AF\\u1100-\\u11FF]+)"
#define WORDS                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static unsigned class_at(const char *text, size_t n, size_t i, size_t *ret_n)
{
    *ret_n = 0;
    return i < n ? tr_char_class(tr_utf8_at(text + i, ret_n)) : 0;
}

/* The end of the run of characters of these classes that begins at i, at most `most` of them. */
static size_t run(const char *text, size_t n, size_t i, unsigned classes, size_t most)
{
    size_t k;

    while (most-- > 0 && (class_at(text, n, i, &k) & classes))
        i += k;
    return i;
}

/* At the beginning of a run: as many digits as leave whole chunks. Inside of one (the match before
 * was such a chunk): the next chunk. */
static bool split_chunks(const char *text, size_t n, size_t from, size_t *begin, size_t *end)
{
    size_t i = from, k, count = CHUNK;
    bool inside = i > 0 && (class_at(text, n, tr_utf8_before(text, i), &k) & TR_CHAR_DIGIT);

    for (; i < n && !(class_at(text, n, i, &k) & TR_CHAR_DIGIT); i += k)
        inside = false;
    if (i == n)
        return false;
    if (!inside) {
        size_t digits = 0;

        for (size_t j = i; class_at(text, n, j, &k) & TR_CHAR_DIGIT; j += k)
            digits++;
        count = (digits - 1) % CHUNK + 1;
    }
    *begin = i;
    *end = run(text, n, i, TR_CHAR_DIGIT, count);
    return true;
}

/* In a text of digits only: the one or two that are in front of the groups of three. */
static bool split_first_group(const char *text, size_t n, size_t from, size_t *begin, size_t *end)
{
    size_t digits = 0, k;

    if (from > 0)
        return false;
    for (size_t i = 0; i < n; i += k) {
        if (!(class_at(text, n, i, &k) & TR_CHAR_DIGIT))
            return false;
        digits++;
    }
    if (digits < 3 || digits % 3 == 0)
        return false;
    *begin = 0;
    *end = run(text, n, 0, TR_CHAR_DIGIT, digits % 3);
    return true;
}

static bool split_groups(const char *text, size_t n, size_t from, size_t *begin, size_t *end)
{
    size_t k, i = from;

    for (int digits = 0; digits < 3; digits++, i += k) {
        if (!(class_at(text, n, i, &k) & TR_CHAR_DIGIT))
            return false;
    }
    *begin = from;
    *end = i;
    return true;
}

/* Which group of scripts a character is of; 0 = none. */
static int script(uint32_t c)
{
    static const struct {
        uint32_t first, last;
        int group;
    } ranges[] = {
        {0x0E00, 0x0E7F, 2}, {0x0E80, 0x0EFF, 3}, {0x1000, 0x109F, 5}, {0x1100, 0x11FF, 6},
        {0x1780, 0x17FF, 4}, {0x2F00, 0x2FDF, 1}, {0x3040, 0x30FF, 1}, {0x3400, 0x4DBF, 1},
        {0x4E00, 0x9FFF, 1}, {0xA9E0, 0xA9FF, 5}, {0xAA60, 0xAA7F, 5}, {0xAC00, 0xD7AF, 6},
        {0xF900, 0xFAFF, 1}, {0xFF65, 0xFF9F, 1},
    };

    for (size_t i = 0; i < TR_ARRAY_LEN(ranges) && c >= ranges[i].first; i++) {
        if (c <= ranges[i].last)
            return ranges[i].group;
    }
    return 0;
}

static bool split_scripts(const char *text, size_t n, size_t from, size_t *begin, size_t *end)
{
    size_t i = from, k;
    int group = 0;

    while (i < n && !(group = script(tr_utf8_at(text + i, &k))))
        i += k;
    *begin = i;
    while (i < n && script(tr_utf8_at(text + i, &k)) == group)
        i += k;
    *end = i;
    return i > *begin;
}

/* White space at i: up to the last line break in the run, else all of it at the end of the text,
 * else all but its last character, else that one. */
static size_t spaces_end(const char *text, size_t n, size_t i)
{
    size_t last_break = 0, last = i, end = i, k;
    unsigned c;

    while ((c = class_at(text, n, end, &k)) & TR_CHAR_SPACE) {
        last = end;
        end += k;
        if (c & TR_CHAR_BREAK)
            last_break = end;
    }
    if (last_break > 0)
        return last_break;
    return end == n || last == i ? end : last;
}

/* The end of the match that begins at i, i itself if there is none. */
static size_t word_end(const char *text, size_t n, size_t i)
{
    const unsigned letters = TR_CHAR_LETTER | TR_CHAR_MARK;
    const unsigned marks = TR_CHAR_PUNCT | TR_CHAR_SYMBOL;
    size_t k, k_next;
    unsigned c = class_at(text, n, i, &k), next = class_at(text, n, i + k, &k_next);

    /* [!-/:-@\[-`{-~][A-Za-z]+ */
    if (k == 1 && (c & marks) && k_next == 1 && (next & TR_CHAR_LETTER)) {
        i++;
        while (i < n && (unsigned char)text[i] < 128 &&
               (tr_char_ascii[(unsigned char)text[i]] & TR_CHAR_LETTER))
            i++;
        return i;
    }
    /* [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ */
    if ((c & letters) || (!(c & (TR_CHAR_BREAK | marks)) && (next & letters)))
        return run(text, n, i + k, letters, SIZE_MAX);
    /* ?[\p{P}\p{S}]+[\r\n]* */
    if ((c & marks) || (text[i] == ' ' && (next & marks)))
        return run(text, n, run(text, n, i + k, marks, SIZE_MAX), TR_CHAR_BREAK, SIZE_MAX);
    /* \s*[\r\n]+ and \s+(?!\S) and \s+ */
    return c & TR_CHAR_SPACE ? spaces_end(text, n, i) : i;
}

static bool split_words(const char *text, size_t n, size_t from, size_t *begin, size_t *end)
{
    size_t k;

    for (size_t i = from; i < n; i += k) {
        size_t stop = word_end(text, n, i);

        if (stop > i) {
            *begin = i;
            *end = stop;
            return true;
        }
        tr_utf8_at(text + i, &k);
    }
    return false;
}

const struct tr_known_split tr_known_splits[TR_KNOWN_SPLITS] = {
    {CHUNKS, split_chunks}, {FIRST_GROUP, split_first_group},
    {GROUPS, split_groups}, {SCRIPTS, split_scripts},
    {WORDS, split_words},
};
