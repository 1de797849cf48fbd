/* The main of a fuzz target when there is no libFuzzer: runs every file, and every file of every folder, named on the
 * command line through the target. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_inputs;

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    long size = 0;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0)
        goto fail;
    rewind(f);
    data = malloc((size_t)size + (size == 0)); /* exact, so that a read past the end is noticed */
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size)
        goto fail;
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    fclose(f);
    n_inputs++;
    return;
fail:
    perror(path);
    exit(2);
}

static void replay(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    if (dir == NULL) {
        replay_file(path);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        char *name = NULL;

        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&name, "%s/%s", path, entry->d_name) < 0)
            exit(2);
        replay_file(name);
        free(name);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs\n", n_inputs);
    return 0;
}
