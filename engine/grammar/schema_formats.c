/* Formats as patterns of the whole string. Days of months and leap years are exact; the rest
 * follows the RFCs' grammars, a subset where they allow more than is useful. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

/* 0001-01-01 to 9999-12-31. */
#define LEAP "(([0-9]{2}(0[48]|[2468][048]|[13579][26]))|(0[48]|[2468][048]|[13579][26])00)"
#define YEAR "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16  "[0-9a-fA-F]{1,4}"
/* Without two hyphens in a row, so none of the encoded international names; at most 253 in all. */
#define LABEL(n) "[A-Za-z0-9](-?[A-Za-z0-9]){0," n "}"
#define HOST     LABEL("31") "(\\." LABEL("31") "){0,2}|" LABEL("13") "(\\." LABEL("13") "){3,7}"
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define PCHAR    "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration",
     "P([0-9]{1,9}W|([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|[0-9]{1,9}D)"
     "(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))?|"
     "T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"ipv4", IPV4},
    {"ipv6", "(" H16 ":){7}" H16 "|(" H16 ":){1,7}:|(" H16 ":){1,6}:" H16 "|(" H16 ":){1,5}(:" H16
             "){1,2}|(" H16 ":){1,4}(:" H16 "){1,3}|(" H16 ":){1,3}(:" H16 "){1,4}|(" H16
             ":){1,2}(:" H16 "){1,5}|" H16 ":(:" H16 "){1,6}|:((:" H16 "){1,7}|:)"},
    {"hostname", HOST},
    {"email", ATOM "{1,24}(\\." ATOM "{1,12}){0,3}@(" HOST ")"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}:(//([A-Za-z0-9._~-]{1,40}@)?(" HOST
            ")(:[0-9]{1,4})?(/" PCHAR "*)*|" PCHAR "+(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR
            "*)*)?)(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"},
};

const char *tr__format_pattern(const char *name)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}
