/* What is written when QEMU ends: README.md has the form. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "plugin.h"

static const char *const page_names[PAGE_SIZES] = { "4K", "2M", "1G" };

static void write_misses(const struct misses *begin, const struct misses *end)
{
	fprintf(plugin.out, ",\"l1d_misses\":%" PRIu64 ",\"l2_misses\":%" PRIu64 ",\"tlb\":{",
		end->l1d - begin->l1d, end->l2 - begin->l2);
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		uint64_t walks = end->tlb2[size] - begin->tlb2[size];

		fprintf(plugin.out,
			"%s\"%s\":{\"l1_misses\":%" PRIu64 ",\"walks\":%" PRIu64
			",\"walk_references\":%" PRIu64 "}",
			size ? "," : "", page_names[size], end->tlb1[size] - begin->tlb1[size], walks,
			walks * model_walk_references(size));
	}
	fputs("}", plugin.out);
}

static void write_side(const char *name, const struct side_counts *begin,
		       const struct side_counts *end)
{
	fprintf(plugin.out,
		",\"%s\":{\"instructions\":%" PRIu64 ",\"waited\":%" PRIu64 ",\"loads\":%" PRIu64
		",\"stores\":%" PRIu64,
		name, end->instructions - begin->instructions, end->waited - begin->waited,
		end->loads - begin->loads, end->stores - begin->stores);
	if (plugin.model) {
		fprintf(plugin.out, ",\"unresolved\":%" PRIu64, end->unresolved - begin->unresolved);
		write_misses(&begin->misses, &end->misses);
	}
	fputs("}", plugin.out);
}

static void write_in_use(const struct in_use *begin, const struct in_use *end)
{
	uint64_t references = 0;

	fputs(",\"in_use\":{\"pages\":{", plugin.out);
	for (enum page_size size = PAGE_4K; size < PAGE_SIZES; size++) {
		uint64_t walks = end->walks[size] - begin->walks[size];

		references += walks * model_walk_references(size);
		fprintf(plugin.out, "%s\"%s\":{\"touched_bytes\":%" PRIu64 ",\"walks\":%" PRIu64 "}",
			size ? "," : "", page_names[size],
			end->touched_bytes[size] - begin->touched_bytes[size], walks);
	}
	fprintf(plugin.out,
		"},\"l1_misses\":%" PRIu64 ",\"walk_references\":%" PRIu64 ",\"unknown\":%" PRIu64 "}",
		end->l1_misses - begin->l1_misses, references, end->unknown - begin->unknown);
}

static void write_counts(const struct counts *begin, const struct counts *end,
			 const struct section *irqs_off)
{
	fprintf(plugin.out, "{\"kernel_entries\":%" PRIu64,
		end->kernel_entries - begin->kernel_entries);
	write_side("user", &begin->side[USER], &end->side[USER]);
	write_side("kernel", &begin->side[KERNEL], &end->side[KERNEL]);
	if (plugin.model)
		write_in_use(&begin->in_use, &end->in_use);
	if (plugin.irqs)
		fprintf(plugin.out,
			",\"irqs_off\":{\"longest\":%" PRIu64 ",\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}",
			irqs_off->instructions, irqs_off->from, irqs_off->to);
	fputs("}", plugin.out);
}

static void write_vcpu(int index)
{
	static const struct counts nothing;
	const struct vcpu *vcpu = &plugin.vcpu[index];

	fprintf(plugin.out, "%s\n{\"vcpu\":%d,\"run\":", index ? "," : "", index);
	write_counts(&nothing, &vcpu->now, &vcpu->irqs.longest_of_run);
	fprintf(plugin.out, ",\"before_regions\":%" PRIu64 ",\"open\":%s,\"regions\":[",
		vcpu->before_regions, vcpu->marked ? "true" : "false");
	for (const struct region *region = vcpu->regions; region; region = region->next) {
		fputs(region == vcpu->regions ? "\n " : ",\n ", plugin.out);
		write_counts(&region->begin, &region->end, &region->irqs_off);
	}
	fputs("]}", plugin.out);
}

void write_output(void)
{
	fprintf(plugin.out, "{\"scope\":\"%s\",\"model\":%s,\"vcpus\":[",
		plugin.only_marks ? "marks" : "run", plugin.model ? "true" : "false");
	for (int i = 0; i < plugin.vcpus; i++)
		write_vcpu(i);
	fputs("]}\n", plugin.out);
	if (ferror(plugin.out) | fclose(plugin.out))
		fprintf(stderr, "margay plugin: cannot write its output: %s\n", strerror(errno));
}
