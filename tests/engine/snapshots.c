/*
 * A saved prefix goes on in another engine exactly as it would have gone on here; everything that
 * is not exactly such a file is refused with the reason.
 */
#include "tests/engine/drive.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct outcome cold, saved, restored;
static const struct tr_snapshot_scope mine = {{0, 0}, {3, 4}};

static char *make_dir(void)
{
    static char dir[64];
    strcpy(dir, "/tmp/trinity-snapshots-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    char file[512];
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        unlink(file);
    }
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static struct tr_engine *open_at(const char *model, const char *dir)
{
    struct tr_engine_options o = drive_options(model);
    o.snapshot_dir = dir;
    return drive_open(o);
}

/* The lengths around the window, and far beyond it; the window is no multiple of the page. */
static void round_trip(void **state)
{
    (void)state;
    static const int windows[] = {1, 15, 40};
    char *dir = make_dir();
    for (size_t w = 0; w < TR_ARRAY_LEN(windows); w++) {
        const char *model = drive_variant(windows[w]);
        const int lengths[] = {17, windows[w] + 16, windows[w] + 32, 3 * windows[w] + 50, 300};
        for (size_t i = 0; i < TR_ARRAY_LEN(lengths); i++) {
            int32_t text[400];
            struct tr_snapshot made;
            struct tr_snapshot back;
            struct tr_err err;
            int n = lengths[i];
            drive_ids(text, n + 5, 21);
            struct tr_engine *e = open_at(model, dir);
            drive(e, drive_job(text, n, 1), &saved);
            assert_int_equal(tr_engine_snapshot_save(e, "one", text, n, &mine, &made, &err), 0);
            assert_int_equal(made.tokens, n / 16 * 16);
            struct tr_engine_stats s = drive_idle(e);
            assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
            tr_engine_close(e);

            e = open_at(model, dir);
            drive(e, drive_job(text, n + 5, 20), &cold);
            tr_engine_close(e);

            e = open_at(model, dir);
            assert_int_equal(tr_engine_snapshot_restore(e, "one", &mine, &back, &err), 0);
            assert_int_equal(back.tokens, made.tokens);
            assert_int_equal(back.bytes, made.bytes);
            drive(e, drive_job(text, n + 5, 20), &restored);
            assert_int_equal(restored.usage.cached_tokens, made.tokens);
            assert_same(&restored, &cold, "restored");
            s = drive_idle(e);
            assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
            tr_engine_close(e);
        }
        drive_remove(model);
    }
    remove_dir(dir);
}

static int restore_code(const char *model, const char *dir, struct tr_engine_options *changed,
                        const struct tr_snapshot_scope *scope, struct tr_err *err)
{
    struct tr_snapshot back;
    struct tr_engine_options o = changed ? *changed : drive_options(model);
    o.snapshot_dir = dir;
    struct tr_engine *e = drive_open(o);
    int r = tr_engine_snapshot_restore(e, "one", scope, &back, err);
    struct tr_engine_stats s = drive_idle(e);
    assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
    assert_int_equal(s.local_pages_cached + s.global_pages_cached > 0, r == 0);
    tr_engine_close(e);
    return r;
}

static void refused(void **state)
{
    (void)state;
    char *dir = make_dir();
    char file[128];
    int32_t text[100];
    struct tr_snapshot made;
    struct tr_err err = {0};
    drive_ids(text, 100, 5);
    struct tr_engine *e = open_at("plain", dir);
    assert_int_equal(tr_engine_snapshot_save(e, "one", text, 100, &mine, &made, &err),
                     TR_ENOTFOUND);
    drive(e, drive_job(text, 100, 1), &saved);
    static const char *const bad_names[] = {"", ".one", "../one", "a/b", "a b"};
    for (size_t i = 0; i < TR_ARRAY_LEN(bad_names); i++)
        assert_int_equal(tr_engine_snapshot_save(e, bad_names[i], text, 100, &mine, &made, &err),
                         TR_EINVAL);
    assert_int_equal(tr_engine_snapshot_save(e, "one", text, 100, &mine, &made, &err), 0);
    tr_engine_close(e);

    /* Another checkpoint, geometry, type or owner. */
    const struct tr_snapshot_scope other = {{0, 0}, {3, 5}};
    struct tr_engine_options o = drive_options("plain");
    assert_int_equal(restore_code("plain", dir, NULL, &mine, &err), 0);
    assert_int_equal(restore_code("irregular", dir, NULL, &mine, &err), TR_EINVAL);
    assert_non_null(strstr(err.msg, "checkpoint"));
    o.page_tokens = 32;
    assert_int_equal(restore_code("plain", dir, &o, &mine, &err), TR_EINVAL);
    assert_non_null(strstr(err.msg, "page_tokens"));
    o = drive_options("plain");
    o.kv_type = TR_KV_BF16;
    assert_int_equal(restore_code("plain", dir, &o, &mine, &err), TR_EINVAL);
    assert_int_equal(restore_code("plain", dir, NULL, &other, &err), TR_EINVAL);
    assert_non_null(strstr(err.msg, "key"));

    /* One bit anywhere, and every kind of length. */
    snprintf(file, sizeof file, "%s/one.snapshot", dir);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, made.bytes);
    int fd = open(file, O_RDWR);
    assert_true(fd >= 0);
    const off_t places[] = {0, 9, 60, 250, 600, st.st_size / 2, st.st_size - 1};
    for (size_t i = 0; i < TR_ARRAY_LEN(places); i++) {
        unsigned char c;
        assert_int_equal(pread(fd, &c, 1, places[i]), 1);
        c ^= 4;
        assert_int_equal(pwrite(fd, &c, 1, places[i]), 1);
        assert_true(restore_code("plain", dir, NULL, &mine, &err) < 0);
        c ^= 4;
        assert_int_equal(pwrite(fd, &c, 1, places[i]), 1);
    }
    assert_int_equal(restore_code("plain", dir, NULL, &mine, &err), 0);
    const off_t sizes[] = {st.st_size + 1, st.st_size - 1, 300, 100, 0};
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        assert_int_equal(ftruncate(fd, sizes[i]), 0);
        assert_int_equal(restore_code("plain", dir, NULL, &mine, &err), TR_EFORMAT);
    }
    close(fd);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(restore_code("plain", dir, NULL, &mine, &err), TR_ENOTFOUND);
    remove_dir(dir);
}

static void list_delete_quota(void **state)
{
    (void)state;
    char *dir = make_dir();
    int32_t text[200];
    struct tr_snapshot made;
    struct tr_snapshot *list;
    struct tr_err err = {0};
    const uint64_t other[2] = {7, 7};
    int n;
    drive_ids(text, 200, 5);
    struct tr_engine_options o = drive_options("plain");
    o.snapshot_dir = dir;
    o.snapshot_quota = 400000;
    struct tr_engine *e = drive_open(o);
    drive(e, drive_job(text, 200, 1), &saved);
    assert_int_equal(tr_engine_snapshot_save(e, "b", text, 32, &mine, &made, &err), 0);
    assert_int_equal(tr_engine_snapshot_save(e, "b", text, 64, &mine, &made, &err), 0);
    assert_int_equal(made.tokens, 64);
    assert_true(made.bytes < o.snapshot_quota);
    assert_int_equal(tr_engine_snapshot_list(e, mine.owner, &list, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "b");
    assert_int_equal(list[0].tokens, 64);
    free(list);
    assert_int_equal(tr_engine_snapshot_list(e, other, &list, &n, &err), 0);
    assert_int_equal(n, 0);
    free(list);
    assert_int_equal(tr_engine_snapshot_delete(e, "b", other, &err), TR_ENOTFOUND);
    int r = 0;
    for (int i = 0; i < 8 && r == 0; i++) {
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        r = tr_engine_snapshot_save(e, name, text, 192, &mine, &made, &err);
    }
    assert_int_equal(r, TR_ENOFIT);
    assert_int_equal(tr_engine_snapshot_delete(e, "b", mine.owner, &err), 0);
    assert_int_equal(tr_engine_snapshot_delete(e, "b", mine.owner, &err), TR_ENOTFOUND);
    tr_engine_close(e);
    o.snapshot_dir = NULL;
    e = drive_open(o);
    assert_int_equal(tr_engine_snapshot_list(e, NULL, &list, &n, &err), TR_EUNSUPPORTED);
    tr_engine_close(e);
    remove_dir(dir);
}

/* What the cache can't hold is refused, whether for ever or for now, before anything in it is
 * touched. */
static void larger_than_the_cache(void **state)
{
    (void)state;
    static int32_t text[2000];
    struct tr_snapshot made;
    struct tr_err err = {0};
    char *dir = make_dir();
    const char *model = drive_variant(40);
    struct tr_engine *e = open_at(model, dir);
    drive_ids(text, 2000, 21);
    drive(e, drive_job(text, 2000, 1), &cold);
    assert_int_equal(tr_engine_snapshot_save(e, "long", text, 2000, &mine, &made, &err), 0);
    assert_int_equal(tr_engine_snapshot_save(e, "half", text, 800, &mine, &made, &err), 0);
    tr_engine_close(e);

    struct tr_engine_options o = drive_options(model);
    o.snapshot_dir = dir;
    o.kv_cache_bytes = 1 << 20;
    e = drive_open(o);
    assert_in_range(tr_engine_info(e)->longest_sequence, 900, 1999);
    drive_ids(text, 2000, 22); /* another one, which stays in the cache */
    drive(e, drive_job(text, 300, 1), &saved);
    assert_int_equal(tr_engine_snapshot_restore(e, "long", &mine, &made, &err), TR_ENOFIT);
    assert_string_equal(err.param, "snapshot");
    drive(e, drive_job(text, 300, 1), &restored);
    assert_in_range(restored.usage.cached_tokens, 280, 299);
    drive_submit(e, drive_job(text, 300, tr_engine_info(e)->longest_sequence - 300), &saved);
    drive_wait_tokens(&saved, 1); /* it was promised the whole cache, and rests */
    tr_engine_pause(e, saved.id, true);
    assert_int_equal(tr_engine_snapshot_restore(e, "half", &mine, &made, &err), TR_ENOMEM);
    tr_engine_cancel(e, saved.id, -1);
    drive_wait(&saved);
    drive(e, drive_job(text, 300, 1), &restored);
    assert_in_range(restored.usage.cached_tokens, 280, 299);
    assert_int_equal(tr_engine_snapshot_restore(e, "half", &mine, &made, &err), 0);
    tr_engine_close(e);
    drive_remove(model);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(refused),
        cmocka_unit_test(list_delete_quota),
        cmocka_unit_test(larger_than_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
