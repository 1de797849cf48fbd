/*
 * Request fields as tables: the one place where a field's name, type, range, default and meaning
 * stand.
 *
 * The same rows validate requests and make GET /v1/capabilities and /openapi.json, so that what is
 * said and what is done cannot drift apart.
 */
#ifndef TR_SERVER_CALL_FIELDS_H
#define TR_SERVER_CALL_FIELDS_H

#include "config/buf.h"
#include "config/json.h"

enum srv_field_type {
    SRV_FIELD_BOOL,    /* bool */
    SRV_FIELD_INT,     /* int64_t */
    SRV_FIELD_NUMBER,  /* double */
    SRV_FIELD_VALUE,   /* struct tr_json, read by the API's code; `schema` says what it may be */
    SRV_FIELD_IGNORED, /* known, of no effect */
    SRV_FIELD_REFUSED  /* known, not supported: only values that ask for nothing pass */
};

struct srv_field {
    const char *name;
    enum srv_field_type type;
    size_t offset; /* of the value in the parameter struct */
    int64_t int_min, int_max, int_default;
    double min, max, number_default;
    bool above_min;     /* min itself is out of range */
    const char *schema; /* JSON schema of a VALUE */
    bool no_default;    /* the default means "not given" and is not shown */
    const char *doc;
};

struct srv_table {
    const struct srv_field *fields;
    size_t n;
};

#define SRV_BOOL_FIELD(name_, at, def, doc_)                                                       \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_BOOL, .offset = at, .int_default = def, .doc = doc_       \
    }
#define SRV_INT_FIELD(name_, at, min_, max_, def, doc_)                                            \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_INT, .offset = at, .int_min = min_, .int_max = max_,      \
        .int_default = def, .doc = doc_                                                            \
    }
/* The default lies outside the range: it means that the field was not given. */
#define SRV_OPT_INT_FIELD(name_, at, min_, max_, def, doc_)                                        \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_INT, .offset = at, .int_min = min_, .int_max = max_,      \
        .int_default = def, .no_default = true, .doc = doc_                                        \
    }
#define SRV_NUMBER_FIELD(name_, at, min_, max_, def, doc_)                                         \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_NUMBER, .offset = at, .min = min_, .max = max_,           \
        .number_default = def, .doc = doc_                                                         \
    }
#define SRV_ABOVE_FIELD(name_, at, min_, max_, def, doc_)                                          \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_NUMBER, .offset = at, .min = min_, .max = max_,           \
        .number_default = def, .above_min = true, .doc = doc_                                      \
    }
#define SRV_VALUE_FIELD(name_, at, schema_, doc_)                                                  \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_VALUE, .offset = at, .schema = schema_, .doc = doc_       \
    }
#define SRV_IGNORED_FIELD(name_, doc_)                                                             \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_IGNORED, .doc = doc_                                      \
    }
#define SRV_REFUSED_FIELD(name_, doc_)                                                             \
    {                                                                                              \
        .name = name_, .type = SRV_FIELD_REFUSED, .doc = doc_                                      \
    }

/* A name that stands in several tables means its row in the first of them. */

/* Sets every field of *params to its default, then to what `defaults` has (an object of fields;
 * NULL: none), then to what the object has. `root` outlives the VALUE fields, which point into it.
 * strict: unknown names are errors. TR_EINVAL with the field in err->param. */
TR_NODISCARD int srv_fields_take(const struct srv_table *const *tables, size_t n_tables,
                                 const struct tr_json *root, const struct tr_json *defaults,
                                 bool strict, void *params, struct tr_err *err);

/* Appends "name":schema pairs of all tables, comma-separated. defaults as above. max_id: the
 * largest token id. */
void srv_fields_schema(struct tr_buf *out, const struct srv_table *const *tables, size_t n_tables,
                       const struct tr_json *defaults, int max_id);

#endif
