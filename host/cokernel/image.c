// SPDX-License-Identifier: GPL-2.0
/* The kernel and the PCT, from where Linux has its firmware: only root writes there, and what they do is ring 0's. */
#include "node.h"

#include <linux/elf.h>
#include <linux/firmware.h>

#define KERNEL "margay/margay.elf"
#define PCT "margay/pct"

/* How far the kernel may reach: its first page tables show no more, and pool, tail and communication area are not its. */
static bool is_free(struct margay_node *node, u64 at, u64 bytes)
{
	u64 end = min_t(u64, node->parts[0].end, node->bytes - MARGAY_TAIL_BYTES);
	u64 comm = node->comm.start - node->start;

	end = min_t(u64, end, MARGAY_EARLY_BYTES);
	if (at < MARGAY_IMAGE_START || at > end || bytes > end - at)
		return false;
	return at + bytes <= comm || at >= comm + node->comm.bytes;
}

static bool is_segment(struct margay_node *node, const struct firmware *file, const Elf64_Phdr *segment)
{
	if (segment->p_offset > file->size || segment->p_filesz > file->size - segment->p_offset)
		return false;
	return segment->p_filesz <= segment->p_memsz && is_free(node, segment->p_paddr, segment->p_memsz);
}

/* 0: this is no kernel. */
static u64 load_kernel(struct margay_node *node, const struct firmware *file)
{
	const Elf64_Ehdr *header = (const void *)file->data;
	u64 entry = 0;
	unsigned int i;

	if (file->size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_type != ET_EXEC || header->e_machine != EM_X86_64 ||
	    header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % 8 || header->e_phoff > file->size ||
	    header->e_phnum > (file->size - header->e_phoff) / sizeof(Elf64_Phdr))
		return 0;
	for (i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = (const Elf64_Phdr *)(file->data + header->e_phoff) + i;
		void *to = __va(node->start + segment->p_paddr);

		if (segment->p_type != PT_LOAD)
			continue;
		if (!is_segment(node, file, segment))
			return 0;
		memcpy(to, file->data + segment->p_offset, segment->p_filesz);
		memset(to + segment->p_filesz, 0, segment->p_memsz - segment->p_filesz);
		if (header->e_entry - segment->p_vaddr < segment->p_filesz &&
		    segment->p_vaddr == MARGAY_KERNEL_BASE + segment->p_paddr)
			entry = header->e_entry;
	}
	return entry;
}

int margay_image_load(struct margay_node *node, struct device *device, u64 *entry)
{
	u64 tail = node->bytes - MARGAY_TAIL_BYTES;
	const struct firmware *file;
	int err;

	err = request_firmware(&file, KERNEL, device);
	if (err)
		return err;
	*entry = load_kernel(node, file);
	release_firmware(file);
	if (!*entry) {
		pr_err("%s: not a kernel of Margay, or too large for this node's memory\n", KERNEL);
		return -ENOEXEC;
	}
	err = request_firmware(&file, PCT, device);
	if (err)
		return err;
	if (file->size <= MARGAY_TAIL_BYTES) {
		memcpy(__va(node->start + tail), file->data, file->size);
		node->record->pct = (struct margay_range){ node->start + tail, file->size };
	} else {
		pr_err("%s: %zu bytes, more than %u\n", PCT, file->size, MARGAY_TAIL_BYTES);
		err = -EFBIG;
	}
	release_firmware(file);
	return err;
}
