#include "engine/grammar/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config/buf.h"

struct entry {
    struct tr_buf source; /* all that makes the grammar, in one text */
    struct tr_grammar *grammar;
    uint64_t used; /* when: number of the call */
};

struct tr_grammar_cache {
    pthread_mutex_t mutex;
    struct entry entries[TR_GRAMMAR_CACHE_ENTRIES];
    uint64_t calls;
};

int tr_grammar_cache_open(struct tr_grammar_cache **ret)
{
    struct tr_grammar_cache *c = calloc(1, sizeof *c);
    if (!c)
        return TR_ENOMEM;
    pthread_mutex_init(&c->mutex, NULL);
    *ret = c;
    return 0;
}

static void drop(struct entry *e)
{
    tr_buf_done(&e->source);
    tr_grammar_unref(e->grammar);
    *e = (struct entry){0};
}

struct tr_grammar_cache *tr_grammar_cache_close(struct tr_grammar_cache *c)
{
    if (!c)
        return NULL;
    for (int i = 0; i < TR_GRAMMAR_CACHE_ENTRIES; i++)
        drop(&c->entries[i]);
    pthread_mutex_destroy(&c->mutex);
    free(c);
    return NULL;
}

static void write_text(struct tr_buf *out, const struct tr_grammar_text *text)
{
    tr_buf_addf(out, "%zu:", text->n);
    tr_buf_add(out, text->bytes, text->n);
}

/* Different sources have different texts. */
static void write_source(struct tr_buf *out, const struct tr_grammar_source *s)
{
    bool words = s->kind == TR_GRAMMAR_CHOICE || s->kind == TR_GRAMMAR_TEXT;
    tr_buf_addf(out, "%d %d %d %d %d %d %d ", s->kind, s->compact, s->indent, s->object, s->lenient,
                words ? s->n_choices : 0, s->n_parts);
    if (!words)
        write_text(out, &s->text);
    for (int i = 0; words && i < s->n_choices; i++)
        write_text(out, &s->choices[i]);
    for (int i = 0; i < s->n_parts; i++)
        write_source(out, &s->parts[i]);
}

/* Under the mutex: a reference to the grammar of that text; NULL if it is not there. */
static struct tr_grammar *find(struct tr_grammar_cache *c, const struct tr_buf *source)
{
    c->calls++;
    for (int i = 0; i < TR_GRAMMAR_CACHE_ENTRIES; i++) {
        struct entry *e = &c->entries[i];
        if (!e->grammar || e->source.len != source->len ||
            memcmp(e->source.data, source->data, source->len) != 0)
            continue;
        e->used = c->calls;
        return tr_grammar_ref(e->grammar);
    }
    return NULL;
}

/* The entry that was not used for longest, or a free one. */
static struct entry *oldest(struct tr_grammar_cache *c, bool free_too)
{
    struct entry *e = NULL;
    for (int i = 0; i < TR_GRAMMAR_CACHE_ENTRIES; i++)
        if ((free_too || c->entries[i].grammar) && (!e || c->entries[i].used < e->used))
            e = &c->entries[i];
    return e;
}

static size_t bytes_of(const struct tr_grammar_cache *c)
{
    size_t bytes = 0;
    for (int i = 0; i < TR_GRAMMAR_CACHE_ENTRIES; i++)
        if (c->entries[i].grammar)
            bytes += tr_grammar_bytes(c->entries[i].grammar) + c->entries[i].source.len;
    return bytes;
}

/* Under the mutex: in the place of those that were not used for longest. Takes the text over. */
static void keep(struct tr_grammar_cache *c, struct tr_buf *source, struct tr_grammar *g)
{
    size_t own = tr_grammar_bytes(g) + source->len;
    if (own > TR_GRAMMAR_CACHE_BYTES)
        return;
    for (struct entry *e; bytes_of(c) + own > TR_GRAMMAR_CACHE_BYTES && (e = oldest(c, false));)
        drop(e);
    struct entry *e = oldest(c, true);
    drop(e);
    *e = (struct entry){.source = *source, .grammar = tr_grammar_ref(g), .used = c->calls};
    *source = (struct tr_buf){0};
}

int tr_grammar_cache_get(struct tr_grammar_cache *c, struct tr_grammar **ret,
                         const struct tr_grammar_source *source,
                         const struct tr_grammar_vocab *vocab, struct tr_err *err)
{
    struct tr_buf text = {0};
    write_source(&text, source);
    bool fits = !text.oom && text.len <= TR_GRAMMAR_CACHE_SOURCE;
    struct tr_grammar *found = NULL, *made = NULL;
    int r = 0;
    if (fits) {
        pthread_mutex_lock(&c->mutex);
        found = find(c, &text);
        pthread_mutex_unlock(&c->mutex);
    }
    if (!found)
        r = tr_grammar_compile(&made, source, vocab, err);
    if (made)
        tr_grammar_warm(made);
    if (made && fits) {
        pthread_mutex_lock(&c->mutex);
        found = find(c, &text); /* another thread may have been as fast */
        if (!found)
            keep(c, &text, made);
        pthread_mutex_unlock(&c->mutex);
    }
    if (found)
        tr_grammar_unref(made);
    if (r == 0)
        *ret = found ? found : made;
    tr_buf_done(&text);
    return r;
}
