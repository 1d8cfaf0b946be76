/* Linked to ARENA_BASE (internal.h), this lies where the arena would. */
__attribute__((section(".taken"), used)) static char taken[1] = { 1 };
