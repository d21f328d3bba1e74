/* The floor of any call: a static program that does nothing. */

int main(void)
{
    return 0;
}
