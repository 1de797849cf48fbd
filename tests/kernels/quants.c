/* The files' quantised formats against the gguf package, and what no checkpoint should hold. */
#include <math.h>
#include <string.h>

#include "tests/kernels/kit.h"
#include "tests/kernels/quants_golden.h"

static void test_quantize(void **state)
{
    (void)state;
    int n = (int)TR_ARRAY_LEN(quants_x);
    uint8_t out[sizeof quants_q8_0];
    assert_int_equal(tr_quantize_row(TR_W_Q8_0, quants_x, n, out), 0);
    assert_memory_equal(out, quants_q8_0, sizeof quants_q8_0);
    assert_int_equal(tr_quantize_row(TR_W_Q4_0, quants_x, n, out), 0);
    assert_memory_equal(out, quants_q4_0, sizeof quants_q4_0);
}

static void check_dequantize(enum tr_wtype type, const uint8_t *block, const float *want)
{
    float y[256];
    tr_dequantize_row(type, block, 256, y);
    kit_same(y, want, 256, "type %d", (int)type);
}

static void test_dequantize(void **state)
{
    (void)state;
    check_dequantize(TR_W_Q4_K, quants_q4_k, quants_q4_k_y);
    check_dequantize(TR_W_Q5_K, quants_q5_k, quants_q5_k_y);
    check_dequantize(TR_W_Q6_K, quants_q6_k, quants_q6_k_y);
}

/* Two bytes an element: there and back is the identity for every number. */
static void test_two_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i;
        uint16_t back;
        float f;
        bool nan16 = (i & 0x7C00) == 0x7C00 && i & 0x3FF;
        tr_dequantize_row(TR_W_F16, &half, 1, &f);
        assert_int_equal(tr_quantize_row(TR_W_F16, &f, 1, &back), 0);
        assert_true(nan16 ? isnan(f) : back == half);
        bool nanbf = (i & 0x7F80) == 0x7F80 && i & 0x7F;
        tr_dequantize_row(TR_W_BF16, &half, 1, &f);
        assert_int_equal(tr_quantize_row(TR_W_BF16, &f, 1, &back), 0);
        assert_true(nanbf ? isnan(f) : back == half);
    }
}

/* Nothing below the smallest fp16 scale survives, and nothing worse happens to it. */
static void test_tiny(void **state)
{
    (void)state;
    static const float sizes[] = {0.0F, 1e-45F, 1e-38F, 1e-31F, 1e-20F, 1e-9F};
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        float x[32];
        float y[32];
        uint8_t block[34];
        for (int j = 0; j < 32; j++)
            x[j] = j % 2 ? sizes[i] : -sizes[i];
        assert_int_equal(tr_quantize_row(TR_W_Q8_0, x, 32, block), 0);
        tr_dequantize_row(TR_W_Q8_0, block, 32, y);
        for (int j = 0; j < 32; j++)
            assert_true(y[j] == 0.0F);
        assert_int_equal(tr_quantize_row(TR_W_Q4_0, x, 32, block), 0);
        tr_dequantize_row(TR_W_Q4_0, block, 32, y);
        for (int j = 0; j < 32; j++)
            assert_true(y[j] == 0.0F);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    uint8_t out[64];
    assert_int_equal(tr_file_row_bytes(TR_W_F32, 3), 12);
    assert_int_equal(tr_file_row_bytes(TR_W_BF16, 3), 6);
    assert_int_equal(tr_file_row_bytes(TR_W_Q8_0, 64), 68);
    assert_int_equal(tr_file_row_bytes(TR_W_Q4_0, 64), 36);
    assert_int_equal(tr_file_row_bytes(TR_W_Q4_K, 512), 288);
    assert_int_equal(tr_file_row_bytes(TR_W_Q5_K, 512), 352);
    assert_int_equal(tr_file_row_bytes(TR_W_Q6_K, 512), 420);
    assert_int_equal(tr_file_row_bytes(TR_W_Q8_0, 33), 0);
    assert_int_equal(tr_file_row_bytes(TR_W_Q6_K, 128), 0);
    assert_int_equal(tr_file_row_bytes(TR_W_F32, 0), 0);
    assert_int_equal(tr_file_row_bytes(TR_W_F32, -1), 0);
    assert_int_equal(tr_packed_bytes(TR_W_F32, 3, 5), 60);
    assert_int_equal(tr_packed_bytes(TR_W_BF16, 17, 33), 2 * 64 * 16 * 2);
    assert_int_equal(tr_packed_bytes(TR_W_Q4_0, 16, 64), 576);
    assert_int_equal(tr_packed_bytes(TR_W_Q8_0, 16, 64), 1088);
    assert_int_equal(tr_packed_bytes(TR_W_Q4_K, 16, 256), 37 * 64);
    assert_int_equal(tr_packed_bytes(TR_W_Q4_K, 16, 128), 0);
    assert_int_equal(tr_packed_bytes(TR_W_F16, 0, 4), 0);
    assert_int_equal(tr_quantize_row(TR_W_Q8_0, quants_x, 31, out), TR_EINVAL);
    assert_int_equal(tr_quantize_row(TR_W_Q4_K, quants_x, 256, out), TR_EUNSUPPORTED);
}

/* Where a type's codes and scales fit another type, they arrive there as they are. */
static void test_copy(void **state)
{
    (void)state;
    enum { K = 512 };
    int pairs = 0;
    for (enum tr_wtype from = TR_W_Q8_0; from < TR_W_COUNT; from++) {
        for (enum tr_wtype to = TR_W_F32; to < TR_W_COUNT; to++) {
            struct kit_matrix w;
            uint8_t row[4 * K];
            float want[K];
            float got[K];
            kit_matrix_init(&w, from, 1, K);
            if (tr_copy_row(from, w.file, K, to, row) == 0) {
                tr_dequantize_row(from, w.file, K, want);
                tr_dequantize_row(to, row, K, got);
                kit_same(got, want, K, "type %d to %d", (int)from, (int)to);
                pairs++;
            }
            kit_matrix_done(&w);
        }
    }
    assert_int_equal(pairs, 8 + 4);
    /* 2^-128 and 2^16 are no fp16 */
    uint8_t block[17] = {0};
    uint8_t out[34];
    assert_int_equal(tr_copy_row(TR_W_MXFP4, block, 32, TR_W_Q8_0, out), TR_EUNSUPPORTED);
    block[0] = 144;
    assert_int_equal(tr_copy_row(TR_W_MXFP4, block, 32, TR_W_Q8_0, out), TR_EUNSUPPORTED);
    block[0] = 143;
    assert_int_equal(tr_copy_row(TR_W_MXFP4, block, 32, TR_W_Q8_0, out), 0);
}

/* Panels packed by several calls are those of one, and rows beyond n are zero. */
static void test_ranges(void **state)
{
    (void)state;
    for (enum tr_wtype type = TR_W_F32; type < TR_W_COUNT; type++) {
        enum { N = 55, K = 256 };
        struct kit_matrix w;
        kit_matrix_init(&w, type, N, K);
        size_t bytes = tr_packed_bytes(type, N, K);
        size_t row = tr_file_row_bytes(type, K);
        uint8_t *parts = kit_alloc(bytes, 0);
        tr_pack_rows(type, w.file + 32 * row, 32, N - 32, N, K, parts);
        tr_pack_rows(type, w.file, 0, 16, N, K, parts);
        tr_pack_rows(type, w.file + 16 * row, 16, 16, N, K, parts);
        assert_memory_equal(parts, w.packed, bytes);
        kit_free(parts);
        kit_matrix_done(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize),  cmocka_unit_test(test_dequantize),
        cmocka_unit_test(test_two_bytes), cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_copy),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
