/* SPDX-License-Identifier: GPL-2.0 */
/* What trampoline.c writes at the end of the trampoline's page, by offset there. */
#ifndef MARGAY_ENTER_H
#define MARGAY_ENTER_H

#define ENTER_NO_IDT 0xef0 /* zeros */
#define ENTER_GDTR 0xf02 /* limit 2, address 8 */
#define ENTER_FAR32 0xf10 /* address 4, selector 2 */
#define ENTER_FAR64 0xf18
#define ENTER_START 0xf20 /* of memory */
#define ENTER_MAILBOX 0xf28 /* as the kernel's first page tables show it */
#define ENTER_ROOT 0xf30 /* of these */
#define ENTER_ARRIVED 0xf38 /* CPUs that wait at their mailbox */
#define ENTER_GDT 0xf40

#endif
