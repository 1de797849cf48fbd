/*
 * Names of further properties: none comes twice in one object.
 *
 * In a rule that is `named` an item's count is 0 or a record: properties counted, how many names
 * came to their ends, the list of these, and the name under way. Name and list are cells of the
 * store, hash-consed as stacks are: a name is its bytes from the last to the first, behind a root
 * that tells its language, so that equal beginnings are one cell.
 *
 * Three depths of knowledge. A text's own configurations know all. Those that masks are made of
 * are shared more widely: where no used name is near, names are forgotten; where one may be met, a
 * name under way is followed as long as one of the list begins so, and not added to the list.
 */
#include <stdlib.h>

#include "engine/grammar/machine_internal.h"

enum { KNOW, FOLLOW, FORGET }; /* record: of the first edge's node */
/* In cells' nodes, beside bytes: roots, a name unlike the list's. */
enum { ROOT_OF = 0x200, OTHER = 0x10000 };
enum { NAME_BYTES = 1024 }; /* what is looked at of a name */

struct record {
    uint32_t know, properties, list, ended, name;
};

static struct record read_record(const struct tr_grammar *g, uint32_t at)
{
    const struct tr__item *e = at ? tr__stack_at(g, at)->edges : NULL;

    if (!e)
        return (struct record){0};
    return (struct record){e[0].node & ~TR__CELL, e[0].count, e[0].stack, e[1].count, e[1].stack};
}

static uint32_t write_record(struct tr_grammar *g, const struct record *r)
{
    struct tr__item edges[] = {{TR__CELL | r->know, r->properties, r->list},
                               {TR__CELL, r->ended, r->name}};

    if (r->properties == 0 && r->list == 0 && r->name == 0 && r->ended == 0)
        return 0;
    return tr__stack_intern(g, edges, 2);
}

static uint32_t add_byte(struct tr_grammar *g, uint32_t name, uint32_t byte)
{
    return tr__stack_intern(g, &(struct tr__item){TR__CELL | byte, 0, name}, 1);
}

static uint32_t last_of(const struct tr_grammar *g, uint32_t name)
{
    return name ? tr__stack_at(g, name)->edges[0].node & ~TR__CELL : OTHER;
}

/* ---- the list: each cell has the rest of it and a name ---- */

static uint32_t add_name(struct tr_grammar *g, uint32_t list, uint32_t name)
{
    struct tr__item edges[] = {{TR__CELL, 0, list}, {TR__CELL, 0, name}};

    return tr__stack_intern(g, edges, 2);
}

static bool is_used(const struct tr_grammar *g, uint32_t list, uint32_t name)
{
    while (list && tr__stack_at(g, list)->edges[1].stack != name)
        list = tr__stack_at(g, list)->edges[0].stack;
    return list != 0;
}

/* How many of the list begin with the cell; no more than `enough` are looked for. */
static uint32_t beginning_with(struct tr_grammar *g, uint32_t list, uint32_t cell, uint32_t enough)
{
    uint32_t depth = tr__stack_at(g, cell)->depth, n = 0;

    for (; list && n < enough; list = tr__stack_at(g, list)->edges[0].stack) {
        uint32_t name = tr__stack_at(g, list)->edges[1].stack;
        g->fuel--;
        while (name && tr__stack_at(g, name)->depth > depth) {
            name = tr__stack_at(g, name)->edges[0].stack;
            g->fuel--;
        }
        n += name == cell;
    }
    if (g->fuel < 0)
        g->r = g->r ? g->r : TR_EUNSUPPORTED;
    return n;
}

/* ---- steps ---- */

/* The last digit of \u00xy has two spellings. */
static unsigned folded(const struct tr_grammar *g, uint32_t name, unsigned byte)
{
    static const char before[] = "00u"; /* behind the first digit, backwards */
    unsigned escapes = 0;

    if (byte < 'A' || byte > 'F' || !name)
        return byte;
    name = tr__stack_at(g, name)->edges[0].stack;
    for (int i = 0; i < 3; i++) {
        if (last_of(g, name) != (uint32_t)before[i])
            return byte;
        name = tr__stack_at(g, name)->edges[0].stack;
    }
    for (; last_of(g, name) == '\\'; name = tr__stack_at(g, name)->edges[0].stack)
        escapes++;
    return escapes % 2 ? byte + 'a' - 'A' : byte;
}

/* A name longer by what made `cell`; false if all names that go on so are used. */
static bool go_on(struct tr_grammar *g, struct record *r, uint32_t cell, uint32_t left)
{
    if (g->r)
        return false;
    if (tr__stack_at(g, cell)->depth == NAME_BYTES && is_used(g, r->list, cell))
        return false;
    if (left && r->ended >= left && beginning_with(g, r->list, cell, left) >= left)
        return false;
    r->name = cell;
    if (r->know == FOLLOW && !beginning_with(g, r->list, cell, 1))
        r->name = g->r ? 0 : add_byte(g, 0, OTHER);
    return true;
}

static bool end_name(struct tr_grammar *g, struct record *r)
{
    if (last_of(g, r->name) != OTHER && is_used(g, r->list, r->name))
        return false;
    if (r->know == KNOW)
        r->list = add_name(g, r->list, r->name);
    r->name = 0;
    r->ended++;
    return true;
}

bool tr__name_step(struct tr_grammar *g, const struct tr__node *x, unsigned byte, uint32_t *count)
{
    struct record r = read_record(g, *count);
    bool ok = true;

    if (r.know == FORGET)
        return true;
    if (x->flags & TR__NODE_NAME_BEGIN) {
        ok = go_on(g, &r, add_byte(g, 0, ROOT_OF + x->arg), 0);
    } else if (x->flags & TR__NODE_NAME_END) {
        ok = end_name(g, &r);
    } else if (last_of(g, r.name) != OTHER && tr__stack_at(g, r.name)->depth < NAME_BYTES) {
        ok = go_on(g, &r, add_byte(g, r.name, folded(g, r.name, byte)), x->arg);
    }
    if (ok)
        *count = write_record(g, &r);
    return ok && g->r == 0;
}

bool tr__name_room(struct tr_grammar *g, const struct tr__node *x, uint32_t count)
{
    struct record r = read_record(g, count);
    uint32_t root;

    if (r.know == FORGET)
        return true;
    if (r.ended >= TR__MAX_NAMES)
        return false;
    if (x->arg == 0 || r.ended < x->arg)
        return true;
    root = add_byte(g, 0, ROOT_OF + x->lo);
    return g->r == 0 && beginning_with(g, r.list, root, x->arg) < x->arg;
}

/* ---- properties counted ---- */

uint32_t tr__name_count(const struct tr_grammar *g, uint32_t record)
{
    return read_record(g, record).properties;
}

uint32_t tr__name_add_property(struct tr_grammar *g, uint32_t record)
{
    struct record r = read_record(g, record);

    r.properties++;
    return write_record(g, &r);
}

/* ---- for masks ---- */

uint32_t tr__name_relaxed(struct tr_grammar *g, const struct tr__rule *rule, uint32_t record)
{
    struct record r = read_record(g, record);
    bool begun = r.name && beginning_with(g, r.list, r.name, 1);

    if (record == 0 || g->r)
        return record;
    /* A token ends no more names than it has bytes. */
    if (!begun && r.ended + g->longest < TR_MIN(rule->few_names, (uint32_t)TR__MAX_NAMES))
        return write_record(g, &(struct record){FORGET, r.properties, 0, 1, 0});
    r.know = FOLLOW;
    if (r.name && !begun)
        r.name = add_byte(g, 0, OTHER);
    return g->r ? 0 : write_record(g, &r);
}

bool tr__name_under_way(const struct tr_grammar *g, uint32_t record)
{
    return read_record(g, record).name != 0;
}
