/* Memory for weights, and its promotion while others read it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/checkpoint/arena.h"
#include "engine/checkpoint/promote.h"

static void is_zeroed_and_aligned(void **state)
{
    static const uint64_t sizes[] = {1, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        struct tr_arena a;
        assert_int_equal(tr__arena_init(&a, sizes[i], NULL), 0);
        assert_int_equal((uintptr_t)a.data % (2 << 20), 0);
        assert_int_equal(a.data[0] | a.data[sizes[i] / 2] | a.data[sizes[i] - 1], 0);
        memset(a.data, 0xFF, sizes[i]);
        tr__arena_done(&a);
        assert_null(a.data);
    }
}

static void of_nothing_is_nothing(void **state)
{
    struct tr_arena a;
    (void)state;
    assert_int_equal(tr__arena_init(&a, 0, NULL), 0);
    assert_null(a.data);
    tr__arena_done(&a);
}

static void refuses_more_than_there_is(void **state)
{
    static const uint64_t sizes[] = {(uint64_t)1 << 50, INT64_MAX, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        struct tr_arena a;
        struct tr_err err;
        assert_int_equal(tr__arena_init(&a, sizes[i], &err), TR_ENOMEM);
        assert_non_null(strstr(err.msg, "GiB are left"));
        tr__arena_done(&a);
    }
}

/* ---- mapped files ---- */

enum { HEADER = 4096, HUGE = 2 << 20, PAGE = 4096 };

static uint32_t word_of(uint64_t page)
{
    return (uint32_t)page * 2654435761U + 12345;
}

/* A file in memory, with a word of its own at the beginning and the end of every page. The kernel
 * keeps it in small pages unless somebody has told it otherwise. */
static int file_of(uint64_t bytes)
{
    uint32_t page[PAGE / 4] = {0};
    int fd = memfd_create("arena", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        page[0] = page[PAGE / 4 - 1] = word_of(at / PAGE);
        size_t n = (size_t)TR_MIN((uint64_t)PAGE, bytes - at);
        assert_int_equal(write(fd, page, n), n);
    }
    return fd;
}

/* How many pages of the arena differ from the file. */
static uint64_t wrong_pages(const struct tr_arena *a)
{
    uint64_t wrong = 0;
    for (uint64_t at = 0; at + PAGE <= a->bytes; at += PAGE) {
        uint32_t first, last, want = word_of((HEADER + at) / PAGE);
        memcpy(&first, a->data + at, sizeof first);
        memcpy(&last, a->data + at + PAGE - sizeof last, sizeof last);
        wrong += first != want || last != want;
    }
    return wrong;
}

static void map(struct tr_arena *a, int fd, uint64_t bytes)
{
    struct tr_err err;
    if (tr__arena_map(a, fd, HEADER, bytes, &err))
        fail_msg("%s", err.msg);
    close(fd);
}

static void a_file_is_mapped(void **state)
{
    static const uint64_t sizes[] = {1, PAGE, HUGE - HEADER, HUGE, 5 * HUGE + 4 * PAGE + 64};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        struct tr_arena a;
        map(&a, file_of(HEADER + sizes[i]), sizes[i]);
        assert_int_equal((uintptr_t)(a.data - HEADER) % HUGE, 0);
        assert_int_equal(a.bytes, sizes[i]);
        assert_int_equal(wrong_pages(&a), 0);
        tr__arena_done(&a);
        assert_null(a.data);
        tr__arena_done(&a);
    }
}

static void what_can_not_be_mapped_leaves_nothing(void **state)
{
    int ends[2];
    struct tr_arena a;
    struct tr_err err;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tr__arena_map(&a, ends[0], HEADER, HUGE, &err), TR_ENOTFOUND);
    assert_null(a.data);
    assert_int_equal(tr__arena_map(&a, ends[0], HEADER, (uint64_t)1 << 50, &err), TR_ENOMEM);
    assert_non_null(strstr(err.msg, "GiB are left"));
    assert_int_equal(tr__arena_map(&a, ends[0], HEADER, 0, &err), 0);
    tr__arena_promote(&a);
    tr__arena_done(&a);
    close(ends[0]);
    close(ends[1]);
}

/* ---- promotion ---- */

static bool has_word(const char *path, const char *word)
{
    char text[128] = "";
    FILE *f = fopen(path, "re");
    bool found = f && fgets(text, sizeof text, f) && strstr(text, word);
    if (f)
        fclose(f);
    return found;
}

/* Can we expect it here? */
static bool moves(void)
{
    static const char folder[] = "/sys/kernel/mm/transparent_hugepage/";
    char enabled[80], shared[80];
    snprintf(enabled, sizeof enabled, "%senabled", folder);
    snprintf(shared, sizeof shared, "%sshmem_enabled", folder);
    return (has_word(enabled, "[madvise]") || has_word(enabled, "[always]")) &&
           (has_word(shared, "[never]") || has_word(shared, "[deny]"));
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static uint64_t await_end(const struct tr_arena *a)
{
    uint64_t moved = 0;
    while (a->promoter && !tr__promoter_ended(a->promoter, &moved))
        pause_us(1000);
    return moved;
}

/* Mappings that lie in the arena, as the kernel counts them. */
static int count_mappings(const struct tr_arena *a)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        uintptr_t from = strtoull(line, NULL, 16);
        n += from >= (uintptr_t)a->mapping && from < (uintptr_t)a->mapping + a->mapped;
    }
    fclose(f);
    return n;
}

struct reader {
    const struct tr_arena *arena;
    atomic_bool stop;
    uint64_t wrong, rounds;
    pthread_t thread;
};

static void *read_on(void *arg)
{
    struct reader *r = arg;
    do {
        r->wrong += wrong_pages(r->arena);
        r->rounds++;
    } while (!atomic_load(&r->stop));
    return NULL;
}

/* Readers see the same bytes all the time, and at its end the file is not needed any more. */
static void promotion_is_not_noticed(void **state)
{
    enum { BYTES = 39 * HUGE + 3 * PAGE + 64 };
    struct tr_arena a;
    struct reader readers[1] = {0}; /* more would take all processors from the promoter */
    (void)state;
    int fd = file_of(HEADER + BYTES), same = dup(fd);
    map(&a, fd, BYTES);
    for (size_t i = 0; i < TR_ARRAY_LEN(readers); i++) {
        readers[i].arena = &a;
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    tr__arena_promote(&a);
    uint64_t moved = await_end(&a);
    for (size_t i = 0; i < TR_ARRAY_LEN(readers); i++) {
        atomic_store(&readers[i].stop, true);
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
        assert_true(readers[i].rounds > 0);
    }
    if (moves()) {
        assert_int_equal(moved, HEADER + BYTES);
        assert_int_equal(ftruncate(same, 0), 0);
        /* One before it, at most one a piece, one behind it. */
        assert_true(count_mappings(&a) <= 2 + 3);
    }
    assert_int_equal(wrong_pages(&a), 0);
    close(same);
    tr__arena_done(&a);
}

static void promotion_ends_with_the_arena(void **state)
{
    enum { BYTES = 40 * HUGE };
    (void)state;
    int fd = file_of(HEADER + BYTES);
    for (int i = 0; i < 24; i++) {
        struct tr_arena a;
        map(&a, dup(fd), BYTES);
        tr__arena_promote(&a);
        pause_us(i * i * 100);
        if (i % 4 == 0)
            assert_int_equal(wrong_pages(&a), 0);
        tr__arena_done(&a);
    }
    close(fd);
}

/* What promotion gives back to the system may be somebody else's a moment later. */
static void promotion_leaves_others_memory_alone(void **state)
{
    enum { BYTES = 40 * HUGE, N = 400 };
    struct tr_arena a;
    uint8_t *others[N];
    (void)state;
    map(&a, file_of(HEADER + BYTES), BYTES);
    tr__arena_promote(&a);
    for (int i = 0; i < N; i++) {
        others[i] =
            mmap(NULL, HUGE / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(others[i] != MAP_FAILED);
        memset(others[i], i, PAGE);
        pause_us(100);
    }
    await_end(&a);
    for (int i = 0; i < N; i++) {
        assert_int_equal(others[i][PAGE - 1], (uint8_t)i);
        munmap(others[i], HUGE / 8);
    }
    assert_int_equal(wrong_pages(&a), 0);
    tr__arena_done(&a);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif

/* Without addresses or a thread for it everything stays as it is. */
static void without_means_nothing_is_promoted(void **state)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ ||                                 \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    (void)state;
    skip(); /* they need addresses of their own */
#else
    enum { BYTES = 20 * HUGE };
    struct tr_arena a;
    struct rlimit old, none = {0};
    (void)state;
    map(&a, file_of(HEADER + BYTES), BYTES);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    none.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    tr__arena_promote(&a);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_null(a.promoter);
    assert_int_equal(wrong_pages(&a), 0);
    tr__arena_done(&a);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_zeroed_and_aligned),
        cmocka_unit_test(of_nothing_is_nothing),
        cmocka_unit_test(refuses_more_than_there_is),
        cmocka_unit_test(a_file_is_mapped),
        cmocka_unit_test(what_can_not_be_mapped_leaves_nothing),
        cmocka_unit_test(promotion_is_not_noticed),
        cmocka_unit_test(promotion_ends_with_the_arena),
        cmocka_unit_test(promotion_leaves_others_memory_alone),
        cmocka_unit_test(without_means_nothing_is_promoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
