/* Counters and histograms: every value falls into one bucket, every request into one cell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base.h"
#include "server/metrics.h"

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct srv_metrics));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* Prometheus: a bucket holds the values up to its edge, that included. */
static void test_a_value_is_in_the_bucket_of_its_edge(void **state)
{
    struct srv_metrics *m = *state;
    for (int id = 0; id < SRV_N_HISTS; id++) {
        const struct srv_histogram_info *info = &srv_histograms[id];
        assert_true(info->n_edges > 0 && info->n_edges <= SRV_MAX_BUCKETS);
        double sum = 0;
        for (size_t i = 0; i < info->n_edges; i++) {
            assert_true(i == 0 || info->edges[i] > info->edges[i - 1]);
            srv_metrics_observe(m, (enum srv_histogram_id)id, info->edges[i]);
            srv_metrics_observe(m, (enum srv_histogram_id)id, info->edges[i] * 1.0001);
            sum += info->edges[i] + info->edges[i] * 1.0001;
        }
        const struct srv_histogram *h = &m->hists[id];
        assert_int_equal(h->buckets[0], 1);
        for (size_t i = 1; i < info->n_edges; i++)
            assert_int_equal(h->buckets[i], 2);
        assert_int_equal(h->buckets[info->n_edges], 1);
        assert_int_equal(h->count, 2 * info->n_edges);
        assert_true(h->sum > sum * 0.999999 && h->sum < sum * 1.000001);
    }
}

static void test_requests_by_route_and_status(void **state)
{
    struct srv_metrics *m = *state;
    int other = -1;
    for (int i = 0; i < SRV_N_CODES; i++) {
        if (srv_metrics_codes[i] == 0)
            other = i;
        else
            srv_metrics_request(m, 3, srv_metrics_codes[i]);
    }
    assert_true(other >= 0);
    srv_metrics_request(m, 3, 299);
    srv_metrics_request(m, 3, 418);
    srv_metrics_request(m, SRV_MAX_ROUTES, 404);
    uint64_t total = 0;
    for (int r = 0; r <= SRV_MAX_ROUTES; r++)
        for (int i = 0; i < SRV_N_CODES; i++)
            total += m->requests[r][i];
    for (int i = 0; i < SRV_N_CODES; i++) {
        assert_int_equal(m->requests[3][i], i == other ? 2 : 1);
        assert_int_equal(m->requests[SRV_MAX_ROUTES][i], srv_metrics_codes[i] == 404 ? 1 : 0);
    }
    assert_int_equal(total, SRV_N_CODES - 1 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_value_is_in_the_bucket_of_its_edge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requests_by_route_and_status, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
