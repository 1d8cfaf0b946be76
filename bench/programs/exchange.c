/* Two ranks exchange data through their SMARTMAP windows: no call, no fault, no
 * interrupt has a part in it.
 *
 *   exchange ROUNDS
 *
 * In each round each rank stores a page of numbers in the other's memory, says
 * so by a word there, and checks what it got.
 */
#define _GNU_SOURCE
#include "ranks.h"

enum { WORDS = 512 };

/* What the other rank writes, by the parity of the round. */
static struct {
	_Atomic uint64_t round[2];
	uint64_t words[2][WORDS];
} inbox;

int main(int argc, char **argv)
{
	uint64_t rounds = number(argc, argv, 1, 100), own = own_rank(), other = 1 - own, wrong = 0;
	__typeof__(inbox) *theirs = of_rank(other, &inbox);

	while ((living() & 3) != 3)
		;
	for (uint64_t round = 1; round <= rounds; round++) {
		int half = round % 2;
		for (int i = 0; i < WORDS; i++)
			theirs->words[half][i] = round * WORDS + i + own;
		atomic_store(&theirs->round[half], round);
		while (atomic_load(&inbox.round[half]) != round)
			;
		for (int i = 0; i < WORDS; i++)
			wrong += inbox.words[half][i] != round * WORDS + i + other;
	}
	check(wrong == 0, "not what the other rank wrote");
	report("rounds", (double)rounds);
	return 0;
}
