// Does nothing: what a run of it executes is starting and ending.
int main(void)
{
    return 0;
}
