/* What a load came to: a table, histograms as text and SVG, and JSON. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load/load.h"

enum { N_BINS = 24, BAR = 50, N_ERRORS = TR_ARRAY_LEN(((struct result *)NULL)->errors) };
static const double PERCENTILES[] = {0.5, 0.9, 0.95, 0.99, 1};

/* ---- lists ---- */

void list_add(struct list *l, double x)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v)
            abort();
    }
    l->v[l->n++] = x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void list_sort(struct list *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_value);
}

double list_at(const struct list *l, double p)
{
    if (l->n == 0)
        return 0;
    double at = p * (double)(l->n - 1);
    size_t i = (size_t)at;
    double part = at - (double)i;
    return i + 1 < l->n ? l->v[i] * (1 - part) + l->v[i + 1] * part : l->v[l->n - 1];
}

double list_mean(const struct list *l)
{
    double sum = 0;
    for (size_t i = 0; i < l->n; i++)
        sum += l->v[i];
    return l->n ? sum / (double)l->n : 0;
}

void result_count_error(struct result *r, const char *what)
{
    int i = 0;
    while (i < r->n_errors && strcmp(r->errors[i].what, what) != 0)
        i++;
    if (i == N_ERRORS)
        return;
    r->n_errors += i == r->n_errors;
    r->errors[i].what = what;
    r->errors[i].n++;
}

/* ---- histograms: bins of equal ratio between the smallest and the largest ---- */

struct histogram {
    double low, ratio;
    size_t bins[N_BINS], most;
};

static struct histogram histogram_of(const struct list *l)
{
    struct histogram h = {.low = l->n ? fmax(l->v[0], 1e-6) : 1e-6};
    double high = l->n ? fmax(l->v[l->n - 1], h.low * 1.01) : 1;
    h.ratio = pow(high / h.low, 1.0 / N_BINS);
    for (size_t i = 0; i < l->n; i++) {
        int bin = (int)(log(fmax(l->v[i], h.low) / h.low) / log(h.ratio));
        bin = bin < 0 ? 0 : bin >= N_BINS ? N_BINS - 1 : bin;
        if (++h.bins[bin] > h.most)
            h.most = h.bins[bin];
    }
    return h;
}

static double edge(const struct histogram *h, int bin)
{
    return h->low * pow(h->ratio, bin);
}

static void text_histogram(const char *name, const struct list *l, FILE *f)
{
    struct histogram h = histogram_of(l);
    fprintf(f, "\n%s, ms\n", name);
    for (int i = 0; i < N_BINS; i++) {
        int n = (int)((h.bins[i] * BAR + h.most - 1) / (h.most ? h.most : 1));
        fprintf(f, "%10.2f %7zu%s", edge(&h, i) * 1e3, h.bins[i], n ? " " : "");
        for (int j = 0; j < n; j++)
            fputc('#', f);
        fputc('\n', f);
    }
}

static void row(const char *name, const struct list *l, FILE *f)
{
    fprintf(f, "%-22s %9.2f", name, list_mean(l) * 1e3);
    for (size_t i = 0; i < TR_ARRAY_LEN(PERCENTILES); i++)
        fprintf(f, " %9.2f", list_at(l, PERCENTILES[i]) * 1e3);
    fputc('\n', f);
}

void report_text(const struct plan *p, struct result *r, FILE *f)
{
    fprintf(f, "%s: %d requests, ", p->url, r->sent);
    if (p->rate > 0)
        fprintf(f, "%.3g a second", p->rate);
    else
        fprintf(f, "%d at a time", p->concurrency);
    fprintf(f, ", %d tokens each\n", p->max_tokens);
    fprintf(f, "good %d, failed %d, ", r->good, r->failed);
    if (p->check)
        fprintf(f, "wrong %d, ", r->wrong);
    fprintf(f, "%.2f s: %.2f requests/s, %.1f tokens/s, goodput %.2f requests/s\n", r->seconds,
            r->good / r->seconds, (double)r->tokens / r->seconds, r->within / r->seconds);
    for (int i = 0; i < r->n_errors; i++)
        fprintf(f, "  %d x %s\n", r->errors[i].n, r->errors[i].what);
    fprintf(f, "\n%-22s %9s %9s %9s %9s %9s %9s\n", "ms", "mean", "p50", "p90", "p95", "p99",
            "max");
    row("time to first token", &r->ttft, f);
    row("gap between tokens", &r->gap, f);
    row("time per later token", &r->tpot, f);
    row("whole request", &r->e2e, f);
    text_histogram("time to first token", &r->ttft, f);
    text_histogram("gap between tokens", &r->gap, f);
    text_histogram("whole request", &r->e2e, f);
}

/* ---- files ---- */

static json_t *figures(const struct list *l)
{
    static const char *const names[] = {"p50", "p90", "p95", "p99", "max"};
    json_t *o = json_pack("{s:f, s:I}", "mean", list_mean(l) * 1e3, "n", (json_int_t)l->n);
    for (size_t i = 0; i < TR_ARRAY_LEN(PERCENTILES); i++)
        json_object_set_new(o, names[i], json_real(list_at(l, PERCENTILES[i]) * 1e3));
    return o;
}

int report_json(const struct plan *p, const struct result *r, const char *path)
{
    json_t *errors = json_object();
    for (int i = 0; i < r->n_errors; i++)
        json_object_set_new(errors, r->errors[i].what, json_integer(r->errors[i].n));
    json_t *o = json_pack(
        "{s:s, s:i, s:i, s:f, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o}",
        "url", p->url, "max_tokens", p->max_tokens, "concurrency", p->concurrency, "rate", p->rate,
        "requests", r->sent, "good", r->good, "wrong", r->wrong, "failed", r->failed, "seconds",
        r->seconds, "requests_per_second", r->good / r->seconds, "tokens_per_second",
        (double)r->tokens / r->seconds, "goodput", r->within / r->seconds, "ttft_ms",
        figures(&r->ttft), "gap_ms", figures(&r->gap), "tpot_ms", figures(&r->tpot), "e2e_ms",
        figures(&r->e2e), "errors", errors);
    int result = o ? json_dump_file(o, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(o);
    return result;
}

static void svg_histogram(const char *name, const struct list *l, int top, FILE *f)
{
    enum { LEFT = 60, WIDTH = 24, HIGH = 110 };
    struct histogram h = histogram_of(l);
    fprintf(f,
            "<text x=\"%d\" y=\"%d\">%s, ms: p50 %.1f, p95 %.1f, p99 %.1f, max %.1f (%zu)</text>\n",
            LEFT, top, name, list_at(l, 0.5) * 1e3, list_at(l, 0.95) * 1e3, list_at(l, 0.99) * 1e3,
            list_at(l, 1) * 1e3, l->n);
    int base = top + 15 + HIGH;
    for (int i = 0; i < N_BINS; i++) {
        int x = LEFT + i * WIDTH;
        double high = h.most ? (double)h.bins[i] * HIGH / (double)h.most : 0;
        fprintf(
            f, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>%zu</title></rect>\n",
            x, base - high, WIDTH - 2, high, h.bins[i]);
        if (i % 4 == 0)
            fprintf(f, "<text x=\"%d\" y=\"%d\">%.3g</text>\n", x, base + 15, edge(&h, i) * 1e3);
    }
    fprintf(f, "<path d=\"M%d %dh%d\"/>\n", LEFT, base, N_BINS * WIDTH);
}

int report_svg(const struct plan *p, const struct result *r, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return -1;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\" height=\"520\" "
               "font-family=\"sans-serif\" "
               "font-size=\"12\">\n<style>rect{fill:#4a7ebb} path{stroke:#444}</style>\n");
    fprintf(f,
            "<text x=\"60\" y=\"20\" font-size=\"14\">%d requests of %d tokens: %d good, %d "
            "failed, %.1f tokens/s"
            "</text>\n",
            r->sent, p->max_tokens, r->good, r->failed, (double)r->tokens / r->seconds);
    svg_histogram("time to first token", &r->ttft, 50, f);
    svg_histogram("gap between tokens", &r->gap, 210, f);
    svg_histogram("whole request", &r->e2e, 370, f);
    fprintf(f, "</svg>\n");
    return fclose(f);
}
