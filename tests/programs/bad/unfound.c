// Linked with a library that is nowhere where the loader looks: it says so
// itself and ends with 127.
extern int inner_answer(void);

int main(void) { return inner_answer(); }
