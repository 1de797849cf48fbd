/*
 * UTF-8 decoding after the Unicode table of well-formed sequences, and properties from utf8proc.
 */
#include "engine/text/unicode.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#define O 0
#define W TR_CHAR_SPACE
#define B (TR_CHAR_SPACE | TR_CHAR_BREAK)
#define P TR_CHAR_PUNCT
#define S TR_CHAR_SYMBOL
#define D TR_CHAR_DIGIT
#define L TR_CHAR_LETTER

const unsigned char tr_char_ascii[128] = {
    O, O, O, O, O, O, O, O, O, W, B, W, W, B, O, O, /* control characters */
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, /* */
    W, P, P, P, S, P, P, P, P, P, P, S, P, P, P, P, /* space to / */
    D, D, D, D, D, D, D, D, D, D, P, P, S, S, S, P, /* 0 to ? */
    P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* @ to O */
    L, L, L, L, L, L, L, L, L, L, L, P, P, P, S, P, /* P to _ */
    S, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* ` to o */
    L, L, L, L, L, L, L, L, L, L, L, P, S, P, S, O, /* p to DEL */
};

#undef O
#undef W
#undef B
#undef P
#undef S
#undef D
#undef L

int tr_utf8_scan(const char *text, size_t n, uint32_t *ret)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xBF; /* bounds of the second byte */
    int need;
    uint32_t c;

    if (p[0] < 0x80) {
        need = 1;
        c = p[0];
    } else if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        need = 2;
        c = p[0] & 0x1Fu;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        need = 3;
        c = p[0] & 0x0Fu;
        if (p[0] == 0xE0)
            low = 0xA0;
        else if (p[0] == 0xED)
            high = 0x9F;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        need = 4;
        c = p[0] & 0x07u;
        if (p[0] == 0xF0)
            low = 0x90;
        else if (p[0] == 0xF4)
            high = 0x8F;
    } else {
        return -1;
    }
    for (int i = 1; i < need; i++) {
        if ((size_t)i == n)
            return 0;
        if (p[i] < low || p[i] > high)
            return -i;
        c = c << 6 | (p[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    if (ret)
        *ret = c;
    return need;
}

bool tr_utf8_valid(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t word;
        int k;

        while (n - i >= sizeof(word)) {
            memcpy(&word, text + i, sizeof(word));
            if (word & 0x8080808080808080u)
                break;
            i += sizeof(word);
        }
        if (i == n)
            break;
        k = tr_utf8_scan(text + i, n - i, NULL);
        if (k <= 0)
            return false;
        i += k;
    }
    return true;
}

void tr_utf8_put(struct tr_buf *b, uint32_t c)
{
    utf8proc_uint8_t bytes[4];

    tr_buf_add(b, bytes, utf8proc_encode_char((utf8proc_int32_t)c, bytes));
}

static bool is_space(uint32_t c)
{
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

unsigned tr_char_class_slow(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return TR_CHAR_LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return TR_CHAR_MARK;
    case UTF8PROC_CATEGORY_ND:
        return TR_CHAR_DIGIT;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return TR_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return TR_CHAR_PUNCT;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
        return TR_CHAR_SYMBOL;
    default:
        return is_space(c) ? TR_CHAR_SPACE : 0;
    }
}

bool tr_char_is_word(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    if (category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC)
        return true;
    /* The joiners, and the circled and squared letters, which are symbols but alphabetic. */
    if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
        (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
        (c >= 0x1F170 && c <= 0x1F189))
        return true;
    return tr_char_class(c) & (TR_CHAR_LETTER | TR_CHAR_MARK | TR_CHAR_DIGIT);
}

int tr_unicode_normalize(enum tr_unicode_form form, const char *text, size_t n, struct tr_buf *out)
{
    static const utf8proc_option_t options[] = {
        [TR_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [TR_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [TR_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE,
        [TR_NFKD] = UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE,
    };
    utf8proc_uint8_t *bytes = NULL;
    utf8proc_ssize_t length;

    if (n > (size_t)INT32_MAX)
        return TR_ETOOLONG;
    length =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &bytes, options[form]);
    if (length < 0)
        return TR_ENOMEM;
    tr_buf_add(out, bytes, (size_t)length);
    free(bytes);
    return out->oom ? TR_ENOMEM : TR_OK;
}
