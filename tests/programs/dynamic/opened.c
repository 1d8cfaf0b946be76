// dlopen, dlsym, dlclose and what they refuse. The libraries lie beside the
// program, where its runpath leads.
#include "../common/check.h"
#include "library.h"
#include <dlfcn.h>
#include <link.h>

typedef int function(void);

static function *symbol(void *library, const char *name) { return (function *)(uintptr_t)dlsym(library, name); }

static int count_objects(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    *(int *)found += strstr(info->dlpi_name, "libplugin") != NULL;
    return 0;
}

static int plugins(void)
{
    int found = 0;
    dl_iterate_phdr(count_objects, &found);
    return found;
}

int main(void)
{
    say("main", "");
    check(plugins() == 0, "no plugin yet");
    void *plugin = dlopen("libplugin.so", RTLD_NOW);
    check(plugin != NULL, "dlopen by the program's runpath: %s", plugin ? "found" : dlerror());
    need(plugin != NULL, "plugin");
    check(plugins() == 1, "it is in the list");
    function *calls = symbol(plugin, "plugin_calls"), *thread = symbol(plugin, "plugin_thread");
    check(calls && calls() == 1 && calls() == 2, "dlsym finds a function");
    check(thread && thread() == 12 && thread() == 13, "with thread-local data of two libraries");
    check(dlopen("libplugin.so", RTLD_NOW) == plugin && calls() == 3, "opened again: the same");
    check(dlsym(plugin, "no_such_symbol") == NULL, "a symbol that is not there");
    printf("%s\n", strstr(dlerror(), "no_such_symbol") ? "is named" : "is not named");
    check(dlsym(RTLD_DEFAULT, "plugin_calls") == NULL, "what is local is not found from outside");
    check(dlsym(RTLD_DEFAULT, "printf") != NULL, "what the program has is");
    Dl_info info;
    check(dladdr((void *)(uintptr_t)calls, &info) && strcmp(info.dli_sname, "plugin_calls") == 0 &&
              strstr(info.dli_fname, "/libplugin.so"), "dladdr knows whose it is");
    fflush(stdout);
    dlclose(plugin);
    dlclose(plugin);
    say("closed", "");
    check(dlopen("libmissing.so", RTLD_NOW) == NULL, "a library that is not there");
    plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_GLOBAL);
    check(plugin && dlsym(RTLD_DEFAULT, "plugin_calls") != NULL, "opened globally");
    fflush(stdout);
    return check_done();
}
