/*
 * The decode loop allocates nothing: malloc and its kin are counted while sequences decode, sample
 * with every kind of filter, cross page borders and speculate.
 */
#include "tests/engine/drive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_int counting, counted;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS false /* the sanitizers bring their own allocator */
#else
#define COUNTS true

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static void count(void)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
}

void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    count();
    return __libc_memalign(align, n);
}
#endif

enum { JOBS = 4, FIRST = 5, LAST = 150 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;

/* Counts from when the last job has FIRST tokens to when the first one has LAST. */
static void on_event(void *arg, const struct tr_event *event)
{
    static int started;
    (void)arg;
    if (event->kind == TR_EVENT_TOKEN && event->position == FIRST && ++started == JOBS)
        atomic_store(&counting, 1);
    if (event->kind == TR_EVENT_TOKEN && event->position == LAST) {
        atomic_store(&counting, 0);
        started = 0;
    }
    if (event->kind != TR_EVENT_DONE)
        return;
    pthread_mutex_lock(&mutex);
    done++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void run(bool speculation)
{
    int32_t prompt[60];
    struct tr_err err = {0};
    struct tr_engine *e;
    struct tr_engine_options o = drive_options("plain");
    o.on_event = on_event;
    o.speculation = speculation;
    o.verify = true;
    assert_int_equal(tr_engine_open(&e, &o, &err), 0);
    done = 0;
    atomic_store(&counted, 0);
    for (int k = 0; k < JOBS; k++) {
        drive_ids(prompt, 60, (uint32_t)k);
        struct tr_job *job = drive_job(prompt, 20 + k, 200);
        job->sampling.temperature = k ? 0.9F : 0.0F;
        job->sampling.top_k = k == 1 ? 20 : 0;
        job->sampling.top_p = k == 2 ? 0.8F : 1.0F;
        job->sampling.frequency_penalty = k == 3 ? 0.2F : 0.0F;
        job->sampling.n_logprobs = k;
        uint64_t id;
        assert_int_equal(tr_engine_submit(e, job, &id, &err), 0);
    }
    pthread_mutex_lock(&mutex);
    while (done < JOBS)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    tr_engine_close(e);
    assert_int_equal(atomic_load(&counted), 0);
}

static void none_while_decoding(void **state)
{
    (void)state;
    if (!COUNTS)
        skip();
    run(false);
    run(true);
}

/* That the counter counts. */
static void counter_works(void **state)
{
    (void)state;
    if (!COUNTS)
        skip();
    atomic_store(&counted, 0);
    atomic_store(&counting, 1);
    void *volatile p = malloc(10);
    atomic_store(&counting, 0);
    free(p);
    assert_int_equal(atomic_load(&counted), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_works),
        cmocka_unit_test(none_while_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
