/* Dates as the C locale writes them, whatever locale the process runs in. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* Writes what a directive stands for; false if it is not one of ours. */
static bool directive(char c, const struct tm *tm, char *out, size_t cap)
{
    int hour12 = (tm->tm_hour + 11) % 12 + 1;
    switch (c) {
    case 'a':
        snprintf(out, cap, "%.3s", days[tm->tm_wday]);
        break;
    case 'A':
        snprintf(out, cap, "%s", days[tm->tm_wday]);
        break;
    case 'b':
        snprintf(out, cap, "%.3s", months[tm->tm_mon]);
        break;
    case 'B':
        snprintf(out, cap, "%s", months[tm->tm_mon]);
        break;
    case 'd':
        snprintf(out, cap, "%02d", tm->tm_mday);
        break;
    case 'e':
        snprintf(out, cap, "%2d", tm->tm_mday);
        break;
    case 'H':
        snprintf(out, cap, "%02d", tm->tm_hour);
        break;
    case 'I':
        snprintf(out, cap, "%02d", hour12);
        break;
    case 'j':
        snprintf(out, cap, "%03d", tm->tm_yday + 1);
        break;
    case 'm':
        snprintf(out, cap, "%02d", tm->tm_mon + 1);
        break;
    case 'M':
        snprintf(out, cap, "%02d", tm->tm_min);
        break;
    case 'p':
        snprintf(out, cap, "%s", tm->tm_hour < 12 ? "AM" : "PM");
        break;
    case 'S':
        snprintf(out, cap, "%02d", tm->tm_sec);
        break;
    case 'y':
        snprintf(out, cap, "%02d", tm->tm_year % 100);
        break;
    case 'Y':
        snprintf(out, cap, "%d", tm->tm_year + 1900);
        break;
    case 'Z':
        snprintf(out, cap, "%s", ""); /* Python's clock is naive: no zone */
        break;
    case '%':
        snprintf(out, cap, "%%");
        break;
    default:
        return false;
    }
    return true;
}

struct tpl_value tr_tpl_strftime(struct tpl_vm *vm, const struct tpl_str *s, int64_t now)
{
    struct tm tm;
    time_t seconds = (time_t)now;
    if (!localtime_r(&seconds, &tm))
        tr_tpl_fail(vm, "strftime_now: no such time");
    size_t mark = vm->text.len;
    for (size_t at = 0; at < s->n;) {
        const char *sign = memchr(s->s + at, '%', s->n - at);
        size_t end = sign ? (size_t)(sign - s->s) : s->n;
        tr_tpl_put_part(vm, s, at, end);
        at = end;
        if (!sign)
            break;
        char text[32];
        if (at + 1 >= s->n || !directive(s->s[at + 1], &tm, text, sizeof text))
            tr_tpl_fail(vm, "strftime_now: unsupported directive in the format");
        tr_tpl_puts(vm, text, TPL_TEMPLATE);
        at += 2;
    }
    return tr_tpl_cut(vm, mark);
}
