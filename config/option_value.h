/* One option row and its value: text to field, field to JSON. Private to config/. */
#ifndef TR_CONFIG_OPTION_VALUE_H
#define TR_CONFIG_OPTION_VALUE_H

#include "config/options.h"

enum tr_option_type {
    TR_OPTION_BOOL,
    TR_OPTION_INT,
    TR_OPTION_SIZE,
    TR_OPTION_DURATION,
    TR_OPTION_REAL,
    TR_OPTION_STRING,
    TR_OPTION_LIST,
    TR_OPTION_CHOICE
};

struct tr_option {
    const char *name;
    enum tr_option_type type;
    size_t offset;      /* of the field in struct tr_options */
    const char *preset; /* default, as text; NULL = not set */
    const char *words;  /* CHOICE: "a|b|c"; numbers: the word for 0, or NULL */
    double min, max;
    unsigned commands; /* enum tr_option_commands */
    unsigned flags;    /* enum tr_option_flags */
    const char *help;
};

/* The table's rows, in its order. */
#define X(...) +1
enum { TR_OPTION_COUNT = TR_OPTION_MAP(X) };
#undef X
extern const struct tr_option tr_option_rows[TR_OPTION_COUNT];

/* Sets the field from text. A LIST takes items separated by commas and appends them. TR_ECONFIG:
 * err->msg is "NAME: expected ...". */
TR_NODISCARD int tr_option_set(const struct tr_option *row, struct tr_options *o, const char *text,
                               struct tr_err *err);
/* Frees what the field owns and zeroes it. */
void tr_option_clear(const struct tr_option *row, struct tr_options *o);
/* Replaces dst's field by a copy of src's; TR_ENOMEM. */
TR_NODISCARD int tr_option_copy(const struct tr_option *row, struct tr_options *dst,
                                const struct tr_options *src);
bool tr_option_equal(const struct tr_option *row, const struct tr_options *a,
                     const struct tr_options *b);
/* Appends the field as JSON, in a form that tr_option_set's JSON source takes; secrets replaced. */
void tr_option_json(const struct tr_option *row, const struct tr_options *o, struct tr_buf *out);
/* Appends what a value must look like: "a whole number from 1 to 8, or auto". */
void tr_option_expected(const struct tr_option *row, struct tr_buf *out);

#endif
