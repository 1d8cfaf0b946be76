// Directories: mkdir, rmdir, listings longer than one getdents buffer, types
// of entries, rewinding, and a tree that is walked and removed.
#include "../common/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FILES = 700 };

// Lists a directory; counts entries besides . and .., and marks numbered ones.
static int list(DIR *dir, char *seen, int *dots)
{
    int count = 0;
    struct dirent *entry;
    *dots = 0;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            ++*dots;
            continue;
        }
        int number;
        if (sscanf(entry->d_name, "a-rather-long-entry-name-%d", &number) == 1 && number < FILES)
            seen[number]++;
        count++;
    }
    return count;
}

static void long_listing(void)
{
    char name[64], seen[FILES] = {0};
    int dots;
    need(mkdir("many", 0755) == 0, "mkdir");
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many/a-rather-long-entry-name-%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        need(fd >= 0, "create");
        close(fd);
    }
    DIR *dir = opendir("many");
    need(dir != NULL, "opendir");
    check(list(dir, seen, &dots) == FILES && dots == 2, "700 entries, . and ..");
    check(all_bytes(seen, 1, FILES), "each of them once");
    rewinddir(dir);
    check(list(dir, seen, &dots) == FILES, "700 again after rewinddir");
    closedir(dir);
    check_fails(rmdir("many"), ENOTEMPTY, "rmdir of a full directory");
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many/a-rather-long-entry-name-%d", i);
        need(unlink(name) == 0, "unlink");
    }
    check(rmdir("many") == 0, "rmdir once it is empty");
}

static void entry_types(void)
{
    struct stat st;
    need(mkdir("mix", 0755) == 0 && mkdir("mix/d", 0755) == 0, "mkdir");
    need(symlink("d", "mix/l") == 0 && mkfifo("mix/p", 0600) == 0, "link, fifo");
    int right = 0;
    DIR *dir = opendir("mix");
    need(dir != NULL, "opendir");
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        need(fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, "fstatat");
        right += st.st_ino == e->d_ino && (e->d_type == DT_UNKNOWN || IFTODT(st.st_mode) == e->d_type);
    }
    closedir(dir);
    check(right == 3, "inode and type of 3 entries agree with stat");
}

static void nesting(void)
{
    char path[1024] = "deep";
    need(mkdir(path, 0755) == 0, "mkdir");
    for (int i = 0; i < 40; i++) {
        strcat(path, "/level");
        need(mkdir(path, 0755) == 0, "mkdir");
    }
    check(access(path, F_OK) == 0, "a tree 40 levels deep");
    for (int i = 0; i < 40; i++) {
        need(rmdir(path) == 0, "rmdir");
        *strrchr(path, '/') = 0;
    }
    check(rmdir("deep") == 0, "removed level by level");
}

int main(void)
{
    long_listing();
    entry_types();
    nesting();
    check_fails(mkdir("mix", 0755), EEXIST, "mkdir of what is there");
    check_fails(mkdir("no/dir", 0755), ENOENT, "mkdir below nothing");
    check_fails(rmdir("mix/l"), ENOTDIR, "rmdir of a link");
    check_fails(rmdir("absent"), ENOENT, "rmdir of nothing");
    check_fails(unlink("mix/d"), EISDIR, "unlink of a directory");
    check(opendir("mix/p") == NULL && errno == ENOTDIR, "opendir of a FIFO");
    return check_done();
}
